//! Gradients in shards: every micro-batch is summed over the replicas as soon as its backward pass has left a bucket.

use super::{
    ParameterSet,
    addends::receive,
    bucket::Bucket,
    open::{self, Open, OpenSum, SumOf},
    reduction::Reduction,
};
use crate::{
    Parameter,
    lane::Lane,
    sums::{Node, add, complete},
};
use std::ops::Range;
use tensor::{Error, Result, Stream, Tensor, ops};

/// The gradients of a bucket in the current step.
#[derive(Default)]
pub(super) struct Sharded {
    /// Micro-batches that wait for further addends.
    open: Vec<Open>,
    /// What other micro-batches have left in this rank's shard.
    sums: Vec<ShardSum>,
}

// This rank's shard of a sum over the batch.
struct ShardSum {
    at: SumOf,
    // Where grids are not to change the sum, those of its nodes that wait for others; otherwise the sum alone.
    nodes: Vec<Node<Tensor>>,
    has: Vec<bool>,
}

impl ParameterSet {
    /// The gradient of a parameter in a micro-batch and the factor of what it holds, if replicas shard gradients.
    pub(super) fn open_gradient(
        &self,
        parameter: &Parameter,
        micro_batch: usize,
    ) -> Result<Option<(Tensor, f64)>> {
        self.in_open(parameter, micro_batch, |bucket, open, index| {
            open.gradient(&self.0.context, bucket, index)
        })
    }

    /// Adds a node to the gradient of a use of the parameter, if replicas shard gradients.
    pub(super) fn add_open_node(
        &self,
        (parameter, micro_batch): (&Parameter, usize),
        at: SumOf,
        node: Range<usize>,
        fill: impl FnOnce(&Tensor, f64) -> Result<()>,
    ) -> Result<()> {
        let added = self.in_open(parameter, micro_batch, |bucket, open, index| {
            bucket.check_tie(parameter, at.number + 1)?;
            open.add_node((&self.0.context, bucket, index), at, node, fill)
        });
        added.map(drop)
    }

    /// Records an addend in a micro-batch, and sums the bucket into its shards once every parameter has received one from
    /// each segment that uses it.
    pub(super) fn note_open(&self, parameter: &Parameter, micro_batch: usize) -> Result<()> {
        let Some(home) = parameter.settled() else {
            return Ok(());
        };
        let is_complete = self.in_open(parameter, micro_batch, |bucket, open, index| {
            open.received[index] += 1;
            Ok(open
                .received
                .iter()
                .all(|received| *received >= bucket.uses))
        })?;
        match is_complete {
            Some(true) => self.sum_into_shards(home.bucket, |open| open == micro_batch),
            _ => Ok(()),
        }
    }

    // `run(bucket, open, place)` on what the parameter's bucket has received in a micro-batch, and its place in the bucket;
    // `None` if replicas do not shard its gradient.
    fn in_open<T>(
        &self,
        parameter: &Parameter,
        micro_batch: usize,
        run: impl FnOnce(&Bucket, &mut Open, usize) -> Result<T>,
    ) -> Result<Option<T>> {
        let Some(home) = parameter.settled() else {
            return Ok(None);
        };
        let bucket = &self.0.buckets[home.bucket];
        if !bucket.shards_gradients() {
            return Ok(None);
        }
        let all = &mut self.0.sharded.borrow_mut()[home.bucket].open;
        let found = all.iter().position(|open| open.micro_batch == micro_batch);
        let found = found.unwrap_or_else(|| {
            all.push(Open::new(micro_batch, bucket));
            all.len() - 1
        });
        run(bucket, &mut all[found], home.place).map(Some)
    }

    /// Forgets what an unfinished step has left.
    pub(super) fn forget_shards(&self) {
        let mut all = self.0.sharded.borrow_mut();
        all.iter_mut().for_each(|one| *one = Sharded::default());
    }

    /// Ends a step: what is still open is summed, and the sums of all uses and micro-batches are added.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the step's passes did not cover the rows of the cut, where grids are not to change sums; those of
    /// the collectives.
    pub(super) fn end_shards(&self, index: usize) -> Result<()> {
        self.sum_into_shards(index, |_| true)?;
        let bucket = &self.0.buckets[index];
        let Some(gradients) = &bucket.gradients else {
            return Ok(());
        };
        let gradients = gradients.tensor()?;
        let stream = self.reduction_stream()?;
        let sums = std::mem::take(&mut self.0.sharded.borrow_mut()[index].sums);
        let mut complete_sums = Vec::new();
        for ShardSum { at, nodes, has } in sums {
            let sum = complete(nodes, |left, right| add(&stream, left, right))?;
            complete_sums.extend(sum.map(|sum| (at, sum, has)));
        }
        // The uses in their order; of equal ones first the sum that has the memory of the gradient.
        complete_sums.sort_by_key(|(at, sum, _)| (at.number, !sum.overlaps(gradients), at.order()));
        let mut done = vec![false; bucket.parameters.len()];
        for (_, sum, has) in complete_sums {
            for (index, done) in done.iter_mut().enumerate().filter(|(at, _)| has[*at]) {
                let own = bucket.own_place(index);
                let [sum, total] = [&sum, gradients].map(|flat| flat.rows(own.start, own.len()));
                match (std::mem::replace(done, true), sum?, total?) {
                    (true, sum, total) => add(&stream, &total, &sum)?,
                    (false, sum, total) if !sum.overlaps(&total) => {
                        ops::copy_on(&stream, &sum, &total)?;
                    }
                    (false, ..) => {}
                }
            }
        }
        // What the step did not use has a gradient of 0.
        for index in (0..done.len()).filter(|index| !done[*index]) {
            let own = bucket.own_place(index);
            gradients.rows(own.start, own.len())?.fill(0.0)?;
        }
        Ok(())
    }

    pub(super) fn reduction_stream(&self) -> Result<Stream> {
        let context = &self.0.context;
        match context.settings().overlap.data {
            true => context.stream(Lane::Reduce),
            false => Ok(context.device().compute()),
        }
    }

    // Sums the open micro-batches of a bucket that are wanted, in their order.
    fn sum_into_shards(&self, index: usize, wanted: impl Fn(usize) -> bool) -> Result<()> {
        let stream = self.reduction_stream()?;
        let mut sharded = self.0.sharded.borrow_mut();
        let Sharded { open, sums } = &mut sharded[index];
        let (mut ready, left) = std::mem::take(open)
            .into_iter()
            .partition::<Vec<_>, _>(|open| wanted(open.micro_batch));
        *open = left;
        ready.sort_by_key(|open| open.micro_batch);
        for mut one in ready {
            one.sums.sort_by_key(|sum| sum.at.order());
            for sum in one.sums {
                self.sum_into_shard((index, one.micro_batch), sum, sums, &stream)?;
            }
        }
        Ok(())
    }

    fn sum_into_shard(
        &self,
        (index, micro_batch): (usize, usize),
        open: OpenSum,
        sums: &mut Vec<ShardSum>,
        stream: &Stream,
    ) -> Result<()> {
        let (context, bucket) = (&self.0.context, &self.0.buckets[index]);
        let Some(gradients) = &bucket.gradients else {
            return Ok(());
        };
        let gradients = gradients.tensor()?;
        for place in without(&open.has, &bucket.places) {
            let views = open.flats.iter();
            views
                .map(|flat| flat.rows(place.start, place.len()))
                .try_for_each(|view| view?.fill(0.0))?;
        }
        // A sum of first uses has the memory of the gradient.
        let is_first = open.at.number == 0 && sums.iter().all(|sum| sum.at.number > 0);
        let found = sums.iter().position(|sum| sum.at == open.at);
        let sum = found.unwrap_or_else(|| {
            sums.push(ShardSum {
                at: open.at,
                nodes: Vec::new(),
                has: vec![false; open.has.len()],
            });
            sums.len() - 1
        });
        let ShardSum { nodes, has, .. } = &mut sums[sum];
        has.iter_mut()
            .zip(&open.has)
            .for_each(|(all, one)| *all |= one);
        let memory = |place: usize| match is_first && place == 0 {
            true => Ok(gradients.clone()),
            false => open::gradients(context, gradients.dtype(), gradients.shape()),
        };
        let Some(leaves) = open.at.leaves else {
            let whole = &open.flats[0];
            return match nodes.first() {
                None => {
                    let sum = memory(0)?;
                    bucket.reduce_into(context, stream, whole, &sum)?;
                    nodes.push((0..1, sum));
                    Ok(())
                }
                Some((_, sum)) => {
                    let part = context.buffer(sum.dtype(), sum.shape())?;
                    bucket.reduce_into(context, stream, whole, &part)?;
                    add(stream, sum, &part)
                }
            };
        };
        let reduction = Reduction {
            context,
            cut: self.0.cut.get(),
            micro_batch: Some(micro_batch),
            stream,
            axes: &bucket.sum_axes,
        };
        let own = own_nodes(&open, bucket)?;
        for (node, part) in reduction.parts(leaves, own, bucket.counts())? {
            let fill = |target: &Tensor, beta| ops::axpby_on(stream, 1.0, &part, beta, target);
            receive(stream, nodes, node, fill, memory)?;
        }
        Ok(())
    }
}

// The nodes of the parameters, which agree, in the flat buffers.
fn own_nodes(open: &OpenSum, bucket: &Bucket) -> Result<Vec<Node<Tensor>>> {
    let ranges = |nodes: &[Node<Tensor>]| -> Vec<Range<usize>> {
        nodes.iter().map(|(range, _)| range.clone()).collect()
    };
    let mut named = open.nodes.iter().zip(&bucket.parameters);
    let Some((first, _)) = named.find(|(nodes, _)| !nodes.is_empty()) else {
        return Ok(Vec::new());
    };
    let expected = ranges(first);
    match named.find(|(nodes, _)| !nodes.is_empty() && ranges(nodes) != expected) {
        None => Ok(expected
            .into_iter()
            .zip(open.flats.iter().cloned())
            .collect()),
        Some((nodes, parameter)) => {
            let found = format!("rows {:?} of {}", ranges(nodes), parameter.name());
            let needed = format!("those of its neighbours: {expected:?}");
            Err(Error::invalid("reduction of gradients", found, needed))
        }
    }
}

fn without<'a>(
    has: &'a [bool],
    places: &'a [Range<usize>],
) -> impl Iterator<Item = &'a Range<usize>> {
    let without = has.iter().zip(places).filter(|(has, _)| !**has);
    without.map(|(_, place)| place)
}
