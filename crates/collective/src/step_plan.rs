//! The gradients that all ranks have pushed in a step, and the buckets in which they travel.

use crate::{Reduced, pack::Pack, reduced::Elements};
use std::{ops::Range, rc::Rc};
use tensor::{DType, Device, Result, Tensor};

/// The gradients of a step on which all ranks agree, in their order. Steps that push the same need no agreement of their own.
#[derive(Debug)]
pub(crate) struct StepPlan {
    gradients: Vec<PlannedGradient>,
    buckets: Vec<Bucket>,
}

#[derive(Debug)]
struct PlannedGradient {
    name: Rc<str>,
    length: usize,
    dtype: DType,
}

/// Gradients that travel together.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) gradients: Range<usize>,
    pub(crate) pack: Pack,
}

/// The rank of a group that receives a gradient of this name, and the number of ranks that receive some.
pub(crate) struct Owners<'a> {
    pub(crate) rank: usize,
    pub(crate) number: usize,
    pub(crate) of: &'a dyn Fn(&str) -> usize,
}

impl StepPlan {
    /// A plan of these gradients, in buckets that end with the gradient that fills them, or with the step.
    ///
    /// # Errors
    /// As [`Tensor::zeros`].
    pub(crate) fn new(
        device: &Device,
        gradients: &[Reduced],
        bucket_bytes: usize,
        owners: &Owners<'_>,
    ) -> Result<StepPlan> {
        let mut ends = Vec::new();
        let mut bytes = 0;
        for (index, gradient) in gradients.iter().enumerate() {
            bytes += gradient.num_elements() * gradient.dtype().bytes();
            if bytes >= bucket_bytes && index + 1 < gradients.len() {
                ends.push(index + 1);
                bytes = 0;
            }
        }
        // The last one, if only for its mark, starts when a rank says that the step has ended.
        ends.push(gradients.len());
        let mut start = 0;
        let buckets = ends.into_iter().map(|end| {
            let range = std::mem::replace(&mut start, end)..end;
            let of = |gradient: &Reduced| {
                let owner = (owners.of)(gradient.name());
                (owner, gradient.num_elements(), gradient.dtype())
            };
            let members: Vec<_> = gradients[range.clone()].iter().map(of).collect();
            Ok(Bucket {
                gradients: range,
                pack: Pack::new(device, &members, owners.rank, owners.number)?,
            })
        });
        let buckets = buckets.collect::<Result<_>>()?;
        let planned = |gradient: &Reduced| PlannedGradient {
            name: gradient.shared_name(),
            length: gradient.num_elements(),
            dtype: gradient.dtype(),
        };
        Ok(StepPlan {
            gradients: gradients.iter().map(planned).collect(),
            buckets,
        })
    }

    /// The name of the gradient at this place, if it is the planned one.
    pub(crate) fn name(&self, index: usize, name: &str, found: &Elements) -> Option<Rc<str>> {
        let planned = self.gradients.get(index)?;
        let is_planned = *planned.name == *name
            && planned.length == found.num_elements()
            && planned.dtype == found.dtype();
        is_planned.then(|| planned.name.clone())
    }

    /// Number of gradients.
    pub(crate) fn num_gradients(&self) -> usize {
        self.gradients.len()
    }

    /// Whether this many gradients fill a bucket, which is not the last: that one ends with the step.
    pub(crate) fn is_filled(&self, bucket: usize, gradients: usize) -> bool {
        bucket + 1 < self.buckets.len() && self.buckets[bucket].gradients.end == gradients
    }

    pub(crate) fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// Tensors of a bucket's shapes for a rank that has other gradients.
    ///
    /// # Errors
    /// As [`Tensor::zeros`].
    pub(crate) fn zeros(&self, device: &Device, bucket: &Bucket) -> Result<Vec<Reduced>> {
        let zeros = |planned: &PlannedGradient| {
            let tensor = Tensor::zeros(device, planned.dtype, &[planned.length])?;
            Ok(Reduced::new(planned.name.clone(), Elements::Tensor(tensor)))
        };
        let planned = &self.gradients[bucket.gradients.clone()];
        planned.iter().map(zeros).collect()
    }
}
