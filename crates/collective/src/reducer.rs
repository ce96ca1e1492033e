//! Gradients summed over replicas, in buckets, while backward still runs.

use crate::{AxisGroup, ParameterShards, agreement::Order};
use parallel::Purpose;
use std::rc::Rc;
use tensor::{DType, Error, Event, ReduceOp, Result, Scalar, Stream, StreamKind, Tensor, ops};

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
/// between. On the CPU they work in the memory of the vectors; nothing is copied.
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
    open: Bucket,
    in_flight: Vec<Bucket>,
    // After the last collective, whichever stream has it: ranks run them in one order.
    last: Option<Event>,
}

/// A gradient after its reduction.
#[derive(Debug)]
pub struct Reduced {
    name: String,
    tensor: Tensor,
}

impl Reduced {
    /// The name under which it was pushed.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The reduced elements.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// The reduced elements in the vector that was pushed, if it was one; otherwise in a copy.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another type than that of the gradient.
    pub fn into_vec<T: Scalar>(self) -> Result<Vec<T>> {
        self.tensor.into_vec()
    }
}

#[derive(Debug, Default)]
struct Bucket {
    gradients: Vec<Reduced>,
    bytes: usize,
    order: Order,
    // The largest numbers of `order` over all ranks, once the bucket is in flight.
    largest: Option<Tensor>,
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
            open: Bucket::default(),
            in_flight: Vec::new(),
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
        let tensor = Tensor::from_vec(device, &[gradient.len()], gradient)?;
        self.push_tensor(name, tensor)
    }

    /// As [`push`](GradientReducer::push), of a tensor, such as one over memory of a device
    /// ([`Tensor::from_memory`]). It is reduced in place.
    ///
    /// # Errors
    /// As [`push`](GradientReducer::push).
    pub fn push_tensor(&mut self, name: &str, tensor: Tensor) -> Result<()> {
        let outcome = self.take(name, tensor);
        if outcome.is_err() {
            self.abandon();
        }
        outcome
    }

    fn take(&mut self, name: &str, tensor: Tensor) -> Result<()> {
        if !tensor.dtype().is_float() {
            let found = format!("gradient {name} of {}", tensor.dtype());
            return Err(Error::invalid("GradientReducer", found, "a float type"));
        }
        let (length, dtype) = (tensor.num_elements(), tensor.dtype());
        if let Some(shards) = &self.options.shards {
            shards.check(name, length)?;
        }
        self.open.order.push(name, length, dtype);
        self.open.bytes += tensor.bytes();
        let name = name.to_owned();
        self.open.gradients.push(Reduced { name, tensor });
        if self.open.bytes >= self.options.bucket_bytes {
            self.start(&self.stream.clone(), false)?;
        }
        Ok(())
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
        if outcome.is_err() {
            self.abandon();
        }
        outcome
    }

    fn collect(&mut self) -> Result<Vec<Reduced>> {
        self.open.order.end();
        // There is nothing more to overlap with. Behind no other bucket, the last one runs where the host waits for it: on the CPU
        // a worker's wake-up would take longer than the reduction of a small model.
        match self.in_flight.is_empty() {
            true => self.start(&self.group.context().device().compute(), true)?,
            false => self.start(&self.stream.clone(), false)?,
        }
        let buckets = std::mem::take(&mut self.in_flight);
        let mut reduced = Vec::new();
        for bucket in buckets {
            if let Some(largest) = &bucket.largest {
                bucket.order.check(&self.group, largest)?;
            }
            reduced.extend(bucket.gradients.into_iter().filter(|it| self.is_mine(it)));
        }
        if self.options.average && self.group.size() > 1 {
            self.divide(&reduced)?;
        }
        Ok(reduced)
    }

    /// Forgets the gradients that were pushed since the last [`finish`](GradientReducer::finish), once nothing works on them any more.
    /// The other ranks wait for theirs, so this is for a rank that is about to fail.
    pub fn abandon(&mut self) {
        // The failure has been reported.
        let _ = self.stream.synchronize();
        let _ = self.group.context().device().compute().synchronize();
        self.open = Bucket::default();
        self.in_flight.clear();
        self.last = None;
    }

    // Starts the reduction of the open bucket. The hash comes first: where ranks differ, it is compared before anything else.
    fn start(&mut self, stream: &Stream, waits: bool) -> Result<()> {
        let mut bucket = std::mem::take(&mut self.open);
        if self.group.size() > 1 {
            if let Some(last) = self.last.take() {
                stream.wait(&last)?;
            }
            let device = self.group.context().device();
            let largest = Tensor::from_vec(device, &[4], bucket.order.numbers().to_vec())?;
            self.group.all_reduce_on(stream, &largest, ReduceOp::Max)?;
            if waits {
                // The host waits for this stream, so ranks that differ must learn it before a collective that others do not call.
                bucket.order.check(&self.group, &largest)?;
            } else {
                bucket.largest = Some(largest);
            }
            let tensors: Vec<(&str, &Tensor)> = bucket
                .gradients
                .iter()
                .map(|gradient| (gradient.name.as_str(), &gradient.tensor))
                .collect();
            match &self.options.shards {
                Some(shards) => shards.reduce(&self.group, stream, &tensors)?,
                None => {
                    let tensors: Vec<&Tensor> = tensors.iter().map(|(_, it)| *it).collect();
                    self.group.all_reduces_on(stream, &tensors, ReduceOp::Sum)?;
                }
            }
            self.last = Some(stream.record()?);
        }
        self.in_flight.push(bucket);
        Ok(())
    }

    fn is_mine(&self, gradient: &Reduced) -> bool {
        let shards = self.options.shards.as_ref();
        shards.is_none_or(|shards| shards.owner(&gradient.name) == Some(self.group.rank()))
    }

    // Divides instead of multiplying by the reciprocal: the number of ranks is exact in every type, and a quotient is rounded once.
    fn divide(&self, gradients: &[Reduced]) -> Result<()> {
        let device = self.group.context().device();
        let mut sizes: Vec<(DType, Tensor)> = Vec::new();
        for Reduced { tensor, .. } in gradients {
            let dtype = tensor.dtype();
            if !sizes.iter().any(|(known, _)| *known == dtype) {
                let size = Tensor::from_f64(device, dtype, &[1], &[self.group.size() as f64])?;
                sizes.push((dtype, size));
            }
            let (_, size) = sizes
                .iter()
                .find(|(known, _)| *known == dtype)
                .expect("pushed above");
            ops::binary_row_in_place(ops::BinaryOp::Div, tensor, size)?;
        }
        Ok(())
    }
}

impl Drop for GradientReducer {
    fn drop(&mut self) {
        if !self.in_flight.is_empty() {
            self.abandon();
        }
    }
}
