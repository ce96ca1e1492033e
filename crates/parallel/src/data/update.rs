//! What an optimiser takes: the pieces of all buckets that this rank updates.

use super::ParameterSet;
use ::tensor::{Result, Tensor, ops::optimiser::Update};

impl ParameterSet {
    /// One piece for each parameter of which this rank updates a part; `weight_decay` acts on those that decay.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) never: places lie within their buckets.
    pub fn updates(&self, weight_decay: f64) -> Result<Vec<Update>> {
        let mut updates = Vec::new();
        for bucket in &self.0.buckets {
            let Some(gradients) = &bucket.gradients else {
                continue;
            };
            let weights = bucket.weights()?;
            for (parameter, place) in bucket.parameters.iter().zip(&bucket.places) {
                let (start, end) = (
                    place.start.max(bucket.range.start),
                    place.end.min(bucket.range.end),
                );
                if start >= end {
                    continue;
                }
                let (len, within) = (end - start, start - bucket.range.start);
                let compute = bucket
                    .master
                    .as_ref()
                    .map(|_| bucket.values.rows(start, len))
                    .transpose()?;
                updates.push(Update {
                    weights: weights.rows(within, len)?,
                    gradients: gradients.rows(start, len)?,
                    state: bucket
                        .state
                        .iter()
                        .map(|state| state.rows(within, len))
                        .collect::<Result<Vec<Tensor>>>()?,
                    compute,
                    weight_decay: if parameter.decays() {
                        weight_decay
                    } else {
                        0.0
                    },
                });
            }
        }
        Ok(updates)
    }

    /// Ends an update: with sharded state, gives every replica the values that the others have updated.
    ///
    /// # Errors
    /// Those of the collectives.
    pub fn end_update(&self) -> Result<()> {
        self.0
            .buckets
            .iter()
            .try_for_each(|bucket| bucket.gather_values(&self.0.context))
    }
}
