//! The input of an optimiser: the pieces of buckets that this rank updates.

use super::{ParameterSet, bucket::common};
use crate::Parameter;
use tensor::{Result, Tensor, ops::optimiser::Update};

/// How a parameter is updated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateRule {
    /// Factor of the learning rate.
    pub rate_factor: f64,
    /// Weight decay.
    pub weight_decay: f64,
}

impl ParameterSet {
    // One piece for each parameter of which this rank updates a part, grouped by the factor of its rate;
    // factors in the order of their first occurrence. Either those of matrices that are updated as a whole, or all others but those
    // whose state is kept as codes.
    pub(super) fn updates(
        &self,
        whole: bool,
        rule: impl Fn(&Parameter) -> UpdateRule,
    ) -> Result<Vec<(f64, Vec<Update>)>> {
        let mut updates: Vec<(f64, Vec<Update>)> = Vec::new();
        let buckets = self.0.buckets.iter();
        let plain = buckets.filter(|bucket| bucket.scales.is_none());
        for bucket in plain.filter(|bucket| bucket.is_whole == whole) {
            let Some(gradients) = bucket.own_gradients()? else {
                continue;
            };
            let weights = bucket.weights()?;
            for (parameter, place) in bucket.parameters.iter().zip(&bucket.places) {
                let own = common(place, &bucket.range);
                if own.is_empty() {
                    continue;
                }
                let (start, len) = (own.start, own.len());
                let within = start - bucket.range.start;
                let view = |flat: &Tensor| flat.rows(within, len);
                let compute = bucket
                    .master
                    .as_ref()
                    .map(|_| bucket.values.rows(start, len));
                let UpdateRule {
                    rate_factor,
                    weight_decay,
                } = rule(parameter);
                let update = Update {
                    weights: view(&weights)?,
                    gradients: view(&gradients)?,
                    state: bucket.state.iter().map(view).collect::<Result<_>>()?,
                    compute: compute.transpose()?,
                    weight_decay,
                };
                match updates
                    .iter_mut()
                    .find(|(factor, _)| *factor == rate_factor)
                {
                    Some((_, pieces)) => pieces.push(update),
                    None => updates.push((rate_factor, vec![update])),
                }
            }
        }
        Ok(updates)
    }

    // With sharded state, sends every replica the values that the others have updated.
    pub(super) fn end_update(&self) -> Result<()> {
        let mut buckets = self
            .0
            .buckets
            .iter()
            .filter(|bucket| bucket.gradients.is_some());
        buckets.try_for_each(|bucket| bucket.gather_values(&self.0.context))
    }
}
