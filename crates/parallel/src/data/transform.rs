//! Matrices that an optimiser updates as a whole: each is brought together at one rank of the stage, worked on there, and
//! every rank receives its parts of the result.

use super::{ParameterSet, bucket::Bucket, owners::rounds};
use crate::{Context, Group, Parameter, Purpose, counters::Subject};
use grid::{Axis, Coordinates, IndexBox};
use hal::Counts;
use std::rc::Rc;
use tensor::{DType, MemoryKind, Result, Tensor, ops};

impl ParameterSet {
    /// As [`Gradients::transform`](super::Gradients::transform).
    pub(super) fn transform(
        &self,
        flop: impl Fn(usize, usize) -> f64,
        mut work: impl FnMut(&Tensor) -> Result<()>,
    ) -> Result<()> {
        let options = &self.0.options;
        let parameters = self.0.parameters.iter();
        let matrices: Vec<&Parameter> = parameters.filter(|each| options.is_whole(each)).collect();
        if matrices.is_empty() {
            return Ok(());
        }
        let stage = Stage::of(self)?;
        let flop = |matrix: &&Parameter| {
            let shape = matrix.global_shape();
            flop(shape[0], shape[1])
        };
        let flop: Vec<f64> = matrices.iter().map(flop).collect();
        for owned in rounds(&flop, stage.num_owners()) {
            let owned = owned.into_iter().map(|matrix| Some(matrices[matrix?]));
            let round = Round::new(&stage, owned.collect(), options.dtype.accumulator());
            round.run(&mut work)?;
        }
        for (bucket, whole) in self.0.buckets.iter().zip(&stage.gradients) {
            if let Some(whole) = whole
                && let Some(own) = bucket.own_gradients()?
            {
                let result = whole.rows(bucket.range.start, bucket.range.len())?;
                ops::copy(&result, &own)?;
            }
        }
        Ok(())
    }

    // Completes the gradients of each bucket of such matrices: in a buffer if replicas hold gradients in shards.
    fn whole_gradients(&self) -> Result<Vec<Option<Tensor>>> {
        let (context, subject) = (&self.0.context, Subject::Matrices);
        let whole = |bucket: &Bucket| match &bucket.gradients {
            Some(shard) if bucket.is_whole && bucket.shards_gradients() => {
                bucket.whole(context, subject, shard.tensor()?).map(Some)
            }
            Some(gradients) if bucket.is_whole => {
                bucket.gather(context, subject, gradients)?;
                Ok(None)
            }
            _ => Ok(None),
        };
        self.0.buckets.iter().map(whole).collect()
    }
}

/// The ranks of a pipeline stage. They own matrices in the order of replicas, and within a replica of its members.
struct Stage<'a> {
    context: &'a Context,
    /// The ranks of this replica: all that differ on the tensor axes.
    members: Vec<Coordinates>,
    tensor: Option<Rc<Group>>,
    data: Option<Rc<Group>>,
    buckets: &'a [Bucket],
    /// Those of each bucket of matrices, where replicas hold them in shards.
    gradients: Vec<Option<Tensor>>,
}

impl Stage<'_> {
    fn of(set: &ParameterSet) -> Result<Stage<'_>> {
        let context = &set.0.context;
        let axes = Axis::tensor().into_iter();
        let axes: Vec<Axis> = axes.filter(|axis| context.degree(*axis) > 1).collect();
        let ranks = context.members(&axes);
        let coordinates = |rank: &usize| {
            let position = context.mapping().position_of(*rank);
            context.grid().coordinates(position)
        };
        let members = ranks.iter().map(coordinates).collect();
        // The bytes of a group over several axes count for the one whose ranks are farthest apart.
        let farthest = axes
            .iter()
            .max_by_key(|axis| context.grid().inner_product(**axis));
        let tensor = match (axes.as_slice(), farthest) {
            ([axis], _) => context.group(*axis, Purpose::Main)?,
            (_, None) => None,
            (_, Some(axis)) => {
                let label = "tensor ranks".to_owned();
                Some(context.group_of(label, *axis, &ranks, Purpose::Main)?)
            }
        };
        Ok(Stage {
            context,
            members,
            tensor,
            data: context.group(Axis::Data, Purpose::Main)?,
            buckets: &set.0.buckets,
            gradients: set.whole_gradients()?,
        })
    }

    /// This rank's part of the gradient of a matrix.
    fn gradient(&self, matrix: &Parameter) -> Result<Tensor> {
        let home = matrix.settled();
        match home.and_then(|home| Some((home, self.gradients[home.bucket].as_ref()?))) {
            Some((home, flat)) => {
                let place = &self.buckets[home.bucket].places[home.place];
                flat.rows(place.start, place.len())?
                    .reshape(matrix.local_shape())
            }
            None => matrix.gradient(),
        }
    }

    fn num_owners(&self) -> usize {
        self.members.len() * self.context.degree(Axis::Data)
    }

    /// The part of a matrix that a member holds.
    fn part(&self, matrix: &Parameter, member: usize) -> IndexBox {
        let (shape, grid) = (matrix.global_shape(), self.context.grid());
        matrix
            .layout()
            .local_box(shape, grid, &self.members[member])
    }

    /// Whether the owner takes a member's part: of members that hold the same one, the owner's neighbour sends it.
    fn takes(&self, matrix: &Parameter, owner: usize, member: usize) -> bool {
        let [owner, member] = [owner, member].map(|index| &self.members[index]);
        Axis::tensor()
            .into_iter()
            .all(|axis| matrix.layout().cuts(axis).is_some() || owner.get(axis) == member.get(axis))
    }
}

/// At most one matrix for each owner.
struct Round<'a> {
    stage: &'a Stage<'a>,
    owned: Vec<Option<&'a Parameter>>,
    /// Elements of the longest part, to which all are padded: vendors have fast exchanges only for equal parts.
    longest: usize,
    dtype: DType,
}

impl<'a> Round<'a> {
    fn new(stage: &'a Stage<'a>, owned: Vec<Option<&'a Parameter>>, dtype: DType) -> Round<'a> {
        let elements = |matrix: &Parameter| {
            let members = 0..stage.members.len();
            let parts = members.map(|member| stage.part(matrix, member).num_elements());
            parts.max().unwrap_or(0)
        };
        let longest = owned.iter().flatten().map(|matrix| elements(matrix));
        Round {
            longest: longest.max().unwrap_or(0),
            stage,
            owned,
            dtype,
        }
    }

    fn run(&self, work: &mut impl FnMut(&Tensor) -> Result<()>) -> Result<()> {
        let (context, size) = (self.stage.context, self.stage.members.len());
        let (replica, replicas) = (context.index(Axis::Data), context.degree(Axis::Data));
        let own = &self.owned[replica * size..][..size];
        if let (None, None, [Some(matrix)]) = (&self.stage.tensor, &self.stage.data, own) {
            return work(&self.stage.gradient(matrix)?);
        }
        let len = size * self.longest;
        let results = self.zeros(replicas * len)?;
        let of_replica = results.rows(replica * len, len)?;
        match (&self.stage.tensor, own) {
            (Some(group), _) => self.exchange(group, own, &of_replica, work)?,
            (None, [Some(matrix)]) => {
                let gradient = self.stage.gradient(matrix)?;
                work(&gradient)?;
                ops::copy(
                    &flat(&gradient)?,
                    &of_replica.rows(0, gradient.num_elements())?,
                )?;
            }
            (None, _) => {}
        }
        if let Some(data) = &self.stage.data {
            let (compute, counts) = (context.device().compute(), Counts::Even(len));
            data.all_gather(
                context,
                Subject::Matrices,
                &compute,
                &of_replica,
                &results,
                &counts,
            )?;
        }
        for (owner, matrix) in self.owned.iter().enumerate() {
            if let Some(matrix) = matrix {
                let gradient = flat(&self.stage.gradient(matrix)?)?;
                let result = self.place(&results, owner, gradient.num_elements())?;
                ops::copy(&result, &gradient)?;
            }
        }
        Ok(())
    }

    // The parts of this replica's matrices to their owners, and the results back into `results`, owner by owner.
    fn exchange(
        &self,
        group: &Group,
        own: &[Option<&Parameter>],
        results: &Tensor,
        work: &mut impl FnMut(&Tensor) -> Result<()>,
    ) -> Result<()> {
        let (context, rank) = (self.stage.context, group.rank());
        let compute = context.device().compute();
        let staged = self.zeros(results.num_elements())?;
        for (owner, matrix) in own.iter().enumerate() {
            let sent = matrix.filter(|matrix| self.stage.takes(matrix, owner, rank));
            if let Some(matrix) = sent {
                let part = flat(&self.stage.gradient(matrix)?)?;
                ops::copy(&part, &self.place(&staged, owner, part.num_elements())?)?;
            }
        }
        group.all_to_all(context, Subject::Matrices, &compute, &staged, results)?;
        if let Some(matrix) = own[rank] {
            self.work_on(matrix, rank, (results, &staged), work)?;
        }
        group.all_to_all(context, Subject::Matrices, &compute, &staged, results)
    }

    // On the matrix that this rank owns: from the parts that it has received to those that it sends.
    fn work_on(
        &self,
        matrix: &Parameter,
        rank: usize,
        (received, staged): (&Tensor, &Tensor),
        work: &mut impl FnMut(&Tensor) -> Result<()>,
    ) -> Result<()> {
        let (stage, members) = (self.stage, 0..self.stage.members.len());
        let whole = stage.context.buffer(self.dtype, matrix.global_shape())?;
        let rows = |part: &IndexBox| whole.rows(part.start[0], part.shape[0]);
        let parts = members.map(|member| (member, stage.part(matrix, member)));
        let parts: Vec<_> = parts.filter(|(_, part)| !part.is_empty()).collect();
        for (member, part) in &parts {
            if stage.takes(matrix, rank, *member) {
                let from = self.place(received, *member, part.num_elements())?;
                ops::set_columns(&rows(part)?, part.start[1], &from.reshape(&part.shape)?)?;
            }
        }
        work(&whole)?;
        for (member, part) in &parts {
            let to = self.place(staged, *member, part.num_elements())?;
            ops::columns_into(&rows(part)?, part.start[1], part.shape[1], &to)?;
        }
        Ok(())
    }

    // The part of a buffer of equal places, one for each member or owner.
    fn place(&self, buffer: &Tensor, index: usize, elements: usize) -> Result<Tensor> {
        buffer.rows(index * self.longest, elements)
    }

    fn zeros(&self, elements: usize) -> Result<Tensor> {
        let device = self.stage.context.device();
        device.allocating(MemoryKind::Buffers, || {
            Tensor::zeros(device, self.dtype, &[elements])
        })
    }
}

fn flat(tensor: &Tensor) -> Result<Tensor> {
    tensor.reshape(&[tensor.num_elements()])
}
