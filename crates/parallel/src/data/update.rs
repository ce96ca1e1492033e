//! The input of an optimiser: the pieces of buckets that this rank updates.

use super::{
    ParameterSet,
    bucket::{Bucket, common},
};
use crate::Parameter;
use std::ops::Range;
use tensor::{Error, Result, Tensor, ops::optimiser::Update};

/// How a parameter is updated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateRule {
    /// Factor of the learning rate.
    pub rate_factor: f64,
    /// Weight decay.
    pub weight_decay: f64,
}

/// Pieces by the factor of their rate; factors in the order of their first occurrence.
pub(super) type Groups = Vec<(f64, Vec<Update>)>;

impl ParameterSet {
    /// Passes `update` one piece for each parameter of which this rank updates a part, grouped by the factor of its rate: first
    /// those whose state is on the device, all at once, or by bucket where weights or gradients are beyond it; and then run by
    /// run those whose state is beyond it. Either those of
    /// matrices that are updated as a whole, or all others but those whose state is kept as codes or as means.
    ///
    /// # Errors
    /// Those of `update`, the device and the store of the state.
    pub(super) fn update_pieces<E: From<Error>>(
        &self,
        whole: bool,
        rule: impl Fn(&Parameter) -> UpdateRule,
        mut update: impl FnMut(f64, &[Update]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut groups = Groups::new();
        let buckets = self.buckets_updated(whole);
        for bucket in buckets.filter(|bucket| bucket.state.placed().is_none()) {
            let all = 0..bucket.range.len();
            let states = (0..bucket.state.num_states()).map(|index| bucket.state(index));
            let states = states.collect::<Result<Vec<_>>>()?;
            add(
                bucket,
                (&bucket.weights()?, &states),
                all,
                &rule,
                &mut groups,
            )?;
            if self.0.options.places.has_pages() {
                run(&mut groups, &mut update)?;
            }
        }
        run(&mut groups, &mut update)?;
        self.update_placed(whole, &rule, &mut update)
    }

    /// The buckets that [`update_pieces`](Self::update_pieces) updates.
    pub(super) fn buckets_updated(&self, whole: bool) -> impl Iterator<Item = &Bucket> {
        let plain = self.0.buckets.iter();
        let plain = plain.filter(|bucket| bucket.scales.is_none() && bucket.gradients.is_some());
        // Directions of means are updated by `update_factored`.
        let factored = self.0.options.factors;
        plain.filter(move |bucket| bucket.is_whole == whole && (whole || !factored))
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

fn run<E: From<Error>>(
    groups: &mut Groups,
    update: &mut impl FnMut(f64, &[Update]) -> Result<(), E>,
) -> Result<(), E> {
    let mut all = groups.drain(..);
    all.try_for_each(|(factor, pieces)| update(factor, &pieces))
}

/// Adds a piece for each parameter of a bucket that has elements in `part` of its range, to which weights and states belong.
///
/// # Errors
/// None in practice: parts lie within their buckets.
pub(super) fn add(
    bucket: &Bucket,
    (weights, states): (&Tensor, &[Tensor]),
    part: Range<usize>,
    rule: &impl Fn(&Parameter) -> UpdateRule,
    groups: &mut Groups,
) -> Result<()> {
    let Some(gradients) = bucket.own_gradients()? else {
        return Ok(());
    };
    for (index, parameter) in bucket.parameters.iter().enumerate() {
        let UpdateRule {
            rate_factor,
            weight_decay,
        } = rule(parameter);
        let of_part = (weights, &gradients, states);
        let Some(piece) = piece((bucket, index), of_part, &part, weight_decay)? else {
            continue;
        };
        match groups.iter_mut().find(|(factor, _)| *factor == rate_factor) {
            Some((_, pieces)) => pieces.push(piece),
            None => groups.push((rate_factor, vec![piece])),
        }
    }
    Ok(())
}

/// The piece of a bucket's parameter, if it has elements in `part` of the bucket's range, to which weights and states belong;
/// gradients belong to all of it.
///
/// # Errors
/// None in practice: parts lie within their buckets.
pub(super) fn piece(
    (bucket, index): (&Bucket, usize),
    (weights, gradients, states): (&Tensor, &Tensor, &[Tensor]),
    part: &Range<usize>,
    weight_decay: f64,
) -> Result<Option<Update>> {
    let own = common(&bucket.own_place(index), part);
    if own.is_empty() {
        return Ok(None);
    }
    let view = |flat: &Tensor| flat.rows(own.start - part.start, own.len());
    let values = || {
        let start = bucket.range.start + own.start;
        bucket.values.tensor()?.rows(start, own.len())
    };
    Ok(Some(Update {
        weights: view(weights)?,
        gradients: gradients.rows(own.start, own.len())?,
        state: states.iter().map(view).collect::<Result<_>>()?,
        compute: bucket.state.has_master().then(values).transpose()?,
        weight_decay,
    }))
}
