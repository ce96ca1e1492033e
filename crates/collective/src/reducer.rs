//! Gradients summed over replicas, in buckets, while backward still runs.

use crate::{
    AxisGroup, ParameterShards, Reduced, agreement,
    pack::SMALL_BYTES,
    reduced::{Elements, HostVector},
    step_plan::{Bucket, Owners, StepPlan},
};
use hal::Counts;
use parallel::Purpose;
use std::{ops::Range, rc::Rc};
use tensor::{Error, Event, ReduceOp, Result, Scalar, Stream, StreamKind, Tensor, UnevenShards};

/// How gradients are reduced.
#[derive(Clone, Debug)]
pub struct ReducerOptions {
    /// A bucket's reduction starts once its gradients have this many bytes: small ones travel together, and the first ones while
    /// the last ones are still being computed.
    pub bucket_bytes: usize,
    /// Whether sums are divided by the number of ranks.
    pub average: bool,
    /// The ranks that need a gradient: with shards, only the owner of its parameter receives it (ZeRO-1), otherwise all ranks do.
    pub shards: Option<Rc<ParameterShards>>,
}

impl Default for ReducerOptions {
    /// 25 MiB, as PyTorch's DistributedDataParallel has; averages; every rank receives all gradients.
    fn default() -> ReducerOptions {
        ReducerOptions {
            bucket_bytes: 25 << 20,
            average: true,
            shards: None,
        }
    }
}

/// A reducer of a step's gradients over the ranks of a group.
///
/// Every rank [pushes](GradientReducer::push) the same gradients in the same order, each as soon as it is computed, and then calls
/// [`finish`](GradientReducer::finish). Collectives run on a stream of their own, so that they overlap with what the caller does in
/// between. On the CPU they work in the memory of the vectors. Only gradients of up to 16 KiB are copied, into one tensor that travels
/// in their place, and back.
///
/// In the first step, and whenever a rank pushes something else than in the last one, ranks compare what they have pushed before it is
/// reduced, and nothing overlaps. In all other steps one more element of each bucket says that no rank has other gradients.
///
/// ```
/// use fascicle_collective::{AxisGroup, GradientReducer, ReducerOptions};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let job = testkit_job();
/// let gradients = job.run(|context| {
///     let group = AxisGroup::named(context, "data")?;
///     let mut reducer = GradientReducer::new(&group, ReducerOptions::default())?;
///     reducer.push("weight", vec![context.world().rank() as f32; 3])?;
///     let mut reduced = reducer.finish()?;
///     reduced.remove(0).into_vec::<f32>()
/// })?;
/// assert_eq!(gradients, [[0.5; 3], [0.5; 3]]);
/// # Ok(())
/// # }
/// # fn testkit_job() -> job::Job {
/// #     job::Job::new([cpu::driver()]).grid("data=2").unwrap()
/// # }
/// ```
#[derive(Debug)]
pub struct GradientReducer {
    group: AxisGroup,
    stream: Stream,
    options: ReducerOptions,
    // What all ranks have agreed on; none before the first step.
    plan: Option<StepPlan>,
    gradients: Vec<Reduced>,
    // Whether the gradients are those of the plan so far, and the number of its buckets that have started.
    follows: bool,
    started: usize,
    // After the last collective, whichever stream has it: ranks run them in one order.
    last: Option<Event>,
}

impl GradientReducer {
    /// A reducer over the ranks of a group. Collective.
    ///
    /// # Errors
    /// [`Error::Vendor`] if the device cannot make a stream; those of [`AxisGroup::new`].
    pub fn new(group: &AxisGroup, options: ReducerOptions) -> Result<GradientReducer> {
        let group = group.with(Purpose::Bucket)?;
        let device = group.context().device();
        let stream = device.create_stream(StreamKind::Communication, "reduce gradients")?;
        Ok(GradientReducer {
            group,
            stream,
            options,
            plan: None,
            gradients: Vec::new(),
            follows: true,
            started: 0,
            last: None,
        })
    }

    /// Takes a gradient; its reduction starts once its bucket is full.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a type that the device lacks; [`Error::Invalid`] for integers, and for a parameter that the shards
    /// do not have; those of starting a reduction. The step's gradients are then gone.
    pub fn push<T: Scalar>(&mut self, name: &str, gradient: Vec<T>) -> Result<()> {
        let device = self.group.context().device();
        let is_small = size_of_val(gradient.as_slice()) <= SMALL_BYTES;
        let elements = match is_small && device.capabilities().host_memory {
            true => Elements::Vector(HostVector::new(gradient)),
            false => Elements::Tensor(Tensor::from_vec(device, &[gradient.len()], gradient)?),
        };
        self.push_elements(name, elements)
    }

    /// As [`push`](GradientReducer::push), of a tensor, such as one over memory of a device
    /// ([`Tensor::from_memory`]). It is reduced in place.
    ///
    /// # Errors
    /// As [`push`](GradientReducer::push).
    pub fn push_tensor(&mut self, name: &str, tensor: Tensor) -> Result<()> {
        self.push_elements(name, Elements::Tensor(tensor))
    }

    fn push_elements(&mut self, name: &str, elements: Elements) -> Result<()> {
        let outcome = self.take(name, elements);
        if outcome.is_err() {
            self.abandon();
        }
        outcome
    }

    fn take(&mut self, name: &str, elements: Elements) -> Result<()> {
        let index = self.gradients.len();
        let plan = self.plan.as_ref().filter(|_| self.follows);
        let planned = plan.and_then(|plan| plan.name(index, name, &elements));
        self.follows = planned.is_some();
        let name = match planned {
            Some(name) => name,
            None => self.check(name, &elements)?,
        };
        self.gradients.push(Reduced::new(name, elements));
        match &self.plan {
            Some(plan) if self.follows && plan.is_filled(self.started, index + 1) => {
                self.start(false)
            }
            _ => Ok(()),
        }
    }

    // The name of a gradient that may be reduced.
    fn check(&self, name: &str, elements: &Elements) -> Result<Rc<str>> {
        let dtype = elements.dtype();
        if !dtype.is_float() {
            let found = format!("gradient {name} of {dtype}");
            return Err(Error::invalid("GradientReducer", found, "a float type"));
        }
        if let Some(shards) = &self.options.shards {
            shards.check(name, elements.num_elements())?;
        }
        Ok(name.into())
    }

    /// Waits for all reductions, and returns the gradients in the order in which they were pushed: all of them, or with shards
    /// those whose parameters this rank owns. The reducer is then ready for the next step.
    ///
    /// # Errors
    /// [`Error::Invalid`] on every rank if ranks have pushed other gradients or another order, with the first difference;
    /// [`Error::Timeout`] naming the ranks that did not arrive; [`Error::Aborted`] and others of the collectives. The step's
    /// gradients are then gone.
    pub fn finish(&mut self) -> Result<Vec<Reduced>> {
        let outcome = self.collect();
        match outcome.is_ok() {
            true => self.begin_step(),
            false => self.abandon(),
        }
        outcome
    }

    fn collect(&mut self) -> Result<Vec<Reduced>> {
        if self.group.size() > 1 {
            self.complete()?;
        }
        let mut reduced = std::mem::take(&mut self.gradients);
        reduced.retain(|gradient| self.is_mine(gradient));
        Ok(reduced)
    }

    // Reduces what has not started, by the plan or, where ranks have left it, by the plan of this step.
    fn complete(&mut self) -> Result<()> {
        let done = self.started;
        if let Some(plan) = &self.plan {
            let buckets = plan.buckets().len();
            self.follows &= plan.num_gradients() == self.gradients.len();
            while self.started < buckets {
                self.start(!self.follows)?;
            }
            if !self.is_left()? {
                return self.collect_buckets(0..buckets);
            }
        }
        let agreed = agreement::compare(&self.group, &self.gradients);
        if let (Err(_), Some(plan)) = (&agreed, &self.plan) {
            // Marks are those of all ranks now, also on those that have set none.
            plan.buckets().iter().try_for_each(|it| it.pack.fill(0.0))?;
        }
        agreed?;
        // All ranks have pushed the same, so all have left the plan in the same place, and reduced the same until then.
        self.collect_buckets(0..done)?;
        let plan = self.plan_of_step()?;
        let buckets = plan.buckets().len();
        self.plan = Some(plan);
        self.started = done;
        while self.started < buckets {
            self.start(false)?;
        }
        self.collect_buckets(done..buckets)
    }

    fn plan_of_step(&self) -> Result<StepPlan> {
        let shards = self.options.shards.as_ref();
        let owners = Owners {
            rank: shards.map_or(0, |_| self.group.rank()),
            number: shards.map_or(1, |_| self.group.size()),
            of: &|name| shards.and_then(|it| it.owner(name)).unwrap_or(0),
        };
        let device = self.group.context().device();
        StepPlan::new(device, &self.gradients, self.options.bucket_bytes, &owners)
    }

    // Whether a rank has gradients that are not the plan's; waits for all buckets.
    fn is_left(&self) -> Result<bool> {
        let mut is_left = false;
        for bucket in self.plan.iter().flat_map(StepPlan::buckets) {
            is_left |= bucket.pack.is_marked()?;
        }
        Ok(is_left)
    }

    /// Forgets the gradients that were pushed since the last [`finish`](GradientReducer::finish), once nothing works on them any more.
    /// The other ranks wait for theirs, so this is for a rank that is about to fail.
    pub fn abandon(&mut self) {
        // The failure has been reported.
        let _ = self.stream.synchronize();
        let _ = self.group.context().device().compute().synchronize();
        self.begin_step();
        self.last = None;
    }

    fn begin_step(&mut self) {
        self.gradients.clear();
        self.follows = true;
        self.started = 0;
    }

    // Starts the plan's next bucket: with the gradients of this step, or with marks and zeros on a rank that leaves the plan.
    fn start(&mut self, leaves: bool) -> Result<()> {
        let Some(plan) = &self.plan else {
            return Ok(());
        };
        let device = self.group.context().device();
        // With one bucket there is nothing to overlap with, so it runs where the host waits for it: on the CPU a worker's wake-up
        // would take longer than the reduction of a small model.
        let stream = match plan.buckets().len() {
            1 => device.compute(),
            _ => self.stream.clone(),
        };
        if let Some(last) = self.last.take() {
            stream.wait(&last)?;
        }
        let bucket = &plan.buckets()[self.started];
        if leaves {
            bucket.pack.fill(1.0)?;
            self.reduce(&stream, bucket, &plan.zeros(device, bucket)?)?;
        } else {
            let mut all = std::mem::take(&mut self.gradients);
            let gradients = &mut all[bucket.gradients.clone()];
            bucket.pack.put(gradients.iter_mut().enumerate())?;
            let mut alone = gradients.iter_mut().enumerate();
            alone.try_for_each(|(index, it)| match bucket.pack.has(index) {
                true => Ok(()),
                false => it.make_tensor(device),
            })?;
            self.reduce(&stream, bucket, gradients)?;
            self.gradients = all;
        }
        self.last = Some(stream.record()?);
        self.started += 1;
        Ok(())
    }

    fn reduce(&self, stream: &Stream, bucket: &Bucket, gradients: &[Reduced]) -> Result<()> {
        let (pack, group) = (&bucket.pack, &self.group);
        let alone = gradients.iter().enumerate();
        let alone = alone.filter(|(index, _)| !pack.has(*index));
        let alone = alone.filter_map(|(_, it)| Some((it.name(), it.tensor()?)));
        let op = match self.options.average {
            true => ReduceOp::Avg,
            false => ReduceOp::Sum,
        };
        let Some(shards) = &self.options.shards else {
            let alone = alone.map(|(_, tensor)| tensor);
            let tensors: Vec<&Tensor> = std::iter::once(pack.tensor()).chain(alone).collect();
            return group.all_reduces_on(stream, &tensors, op);
        };
        let with_parts = |(name, tensor)| Ok((tensor, shards.parts(name, tensor)?));
        let parts: Vec<(&Tensor, (Tensor, Counts))> =
            alone.map(with_parts).collect::<Result<_>>()?;
        let packed = UnevenShards {
            send: pack.tensor(),
            recv: pack.own(),
            counts: pack.counts(),
        };
        let alone = parts
            .iter()
            .map(|(send, (recv, counts))| UnevenShards { send, recv, counts });
        let all: Vec<UnevenShards<'_>> = std::iter::once(packed).chain(alone).collect();
        group.reduce_scatters_on(stream, &all, op)
    }

    // Brings the reduced gradients of these buckets to where they were pushed.
    fn collect_buckets(&mut self, buckets: Range<usize>) -> Result<()> {
        let mut all = std::mem::take(&mut self.gradients);
        let plan = self.plan.iter();
        for Bucket { gradients, pack } in plan.flat_map(|plan| &plan.buckets()[buckets.clone()]) {
            let own = all[gradients.clone()].iter_mut().enumerate();
            pack.take(own.filter(|(_, it)| self.is_mine(it)))?;
        }
        self.gradients = all;
        Ok(())
    }

    fn is_mine(&self, gradient: &Reduced) -> bool {
        let shards = self.options.shards.as_ref();
        shards.is_none_or(|shards| shards.owner(gradient.name()) == Some(self.group.rank()))
    }
}

impl Drop for GradientReducer {
    fn drop(&mut self) {
        if !self.gradients.is_empty() {
            self.abandon();
        }
    }
}
