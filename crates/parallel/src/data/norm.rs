//! The norm of all gradients, with each element counted once.

use super::{ParameterSet, bucket::Bucket};
use crate::{Purpose, Reproducible, counters::Subject};
use grid::Axis;
use tensor::{DType, ReduceOp, Result, Tensor, ops::optimiser};

impl ParameterSet {
    /// The sum of the squares of all gradients that ranks along these axes hold: one f64, the same on all of them.
    ///
    /// A shard counts on one of the ranks that hold it; a tied parameter counts on the first stage that has it.
    ///
    /// # Cost
    /// One pass over the gradients held here; one number reduced over each axis. If sums are to be reproducible on any grid, two
    /// passes and four numbers: the bits then do not depend on how ranks and tensors hold the gradients.
    /// # Errors
    /// Those of the collectives.
    pub(super) fn sum_squares_over(&self, axes: &[Axis]) -> Result<Tensor> {
        let device = self.0.context.device();
        let zeros = |count| Tensor::zeros(device, DType::F64, &[count]);
        if self.0.context.settings().reproducible == Reproducible::Run {
            let sum = zeros(1)?;
            self.each_counted(|counted| optimiser::sum_squares(counted, &sum))?;
            self.reduce_counted(axes, &sum, ReduceOp::Sum)?;
            return Ok(sum);
        }
        let (largest, sums) = (zeros(1)?, zeros(3)?);
        self.each_counted(|counted| optimiser::largest(counted, &largest))?;
        self.reduce_counted(axes, &largest, ReduceOp::Max)?;
        self.each_counted(|counted| optimiser::exact_squares(counted, &largest, &sums))?;
        self.reduce_counted(axes, &sums, ReduceOp::Sum)?;
        optimiser::exact_total(&largest, &sums)
    }

    // Over those of the axes whose ranks count different gradients.
    fn reduce_counted(&self, axes: &[Axis], numbers: &Tensor, op: ReduceOp) -> Result<()> {
        let context = &self.0.context;
        let compute = context.device().compute();
        for &axis in axes {
            // Ranks of Context hold and count the same gradients; so do replicas along Data without sharded state.
            let is_same = match axis {
                Axis::Context => true,
                Axis::Data => !self.0.options.sharding.shards_state(),
                _ => false,
            };
            if is_same {
                continue;
            }
            if let Some(group) = context.group(axis, Purpose::Main)? {
                group.all_reduce(context, Subject::Clipping, &compute, numbers, op)?;
            }
        }
        Ok(())
    }

    // What this rank counts, bucket by bucket wherever gradients are: so no bit depends on their place.
    fn each_counted(&self, mut work: impl FnMut(&[&Tensor]) -> Result<()>) -> Result<()> {
        for bucket in &self.0.buckets {
            let mut counted = Vec::new();
            self.counted_slices(bucket, &mut counted)?;
            if !counted.is_empty() {
                work(&counted.iter().collect::<Vec<_>>())?;
            }
        }
        Ok(())
    }

    fn counted_slices(&self, bucket: &Bucket, counted: &mut Vec<Tensor>) -> Result<()> {
        let context = &self.0.context;
        let first = bucket
            .tied
            .as_ref()
            .is_none_or(|members| members[0] == context.world().rank());
        let Some(gradients) = bucket.own_gradients()?.filter(|_| first) else {
            return Ok(());
        };
        for (index, parameter) in bucket.parameters.iter().enumerate() {
            let own = bucket.own_place(index);
            if !own.is_empty() && parameter.counts_in_norm(context) {
                counted.push(gradients.rows(own.start, own.len())?);
            }
        }
        Ok(())
    }
}
