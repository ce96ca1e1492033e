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

/// Pieces by the factor of their rate; these factors in the order of their first occurrence.
pub(super) type Groups = Vec<(f64, Vec<Update>)>;

impl ParameterSet {
    /// Passes `update` one piece for each parameter of which this rank updates a part, grouped by the factor of its rate: first
    /// those whose state is on the device, all at once, or by bucket where weights or gradients are beyond it; and then run by
    /// run those whose state is beyond it. With them comes `factor`, on the device that has the pieces. Either those of
    /// matrices that are updated as a whole, or all others but those whose state is kept as codes or as means.
    ///
    /// # Errors
    /// Those of `update`, the device and the store of the state.
    pub(super) fn update_pieces<E: From<Error>>(
        &self,
        whole: bool,
        factor: &Tensor,
        rule: impl Fn(&Parameter) -> UpdateRule,
        mut update: impl FnMut(f64, &Tensor, &[Update]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut groups = Groups::new();
        let buckets = self.buckets_updated(whole);
        for bucket in buckets.filter(|bucket| bucket.state.is_on_device()) {
            let Some(gradients) = bucket.own_gradients()? else {
                continue;
            };
            let all = 0..bucket.range.len();
            let states = (0..bucket.state.num_states()).map(|index| bucket.state(index));
            let has_master = bucket.state.has_master();
            let values = has_master.then(|| bucket.own_values(&all)).transpose()?;
            let tensors = PartTensors {
                weights: &bucket.weights()?,
                gradients: &gradients,
                states: &states.collect::<Result<Vec<_>>>()?,
                compute: values.as_ref(),
            };
            add(bucket, &tensors, &all, &rule, &mut groups)?;
            if self.0.options.places.has_pages() {
                run(&mut groups, factor, &mut update)?;
            }
        }
        run(&mut groups, factor, &mut update)?;
        let factor = match &self.0.room.host {
            None => factor.clone(),
            Some(host) => host.copy(factor)?,
        };
        let mut update = |rate, pieces: &[Update]| update(rate, &factor, pieces);
        self.update_hosted(whole, None, &rule, &mut update)?;
        self.update_placed(whole, &rule, &mut update)
    }

    /// As [`update_pieces`](Self::update_pieces) of all but whole matrices, by a factor that no norm decides: on the host, an update
    /// waits for the gradients of its own bucket alone.
    ///
    /// # Errors
    /// As there.
    pub(super) fn update_by<E: From<Error>>(
        &self,
        factor: f64,
        rule: impl Fn(&Parameter) -> UpdateRule,
        mut update: impl FnMut(f64, &Tensor, &[Update]) -> Result<(), E>,
    ) -> Result<(), E> {
        let host = self.0.room.host.as_ref();
        let device = host.map_or(self.0.context.device(), |host| host.device());
        // Beside the factor stands the norm, which nobody knows yet.
        let factor = Tensor::from_slice(device, &[2], &[factor, f64::NAN])?;
        if host.is_none() {
            return self.update_pieces(false, &factor, rule, update);
        }
        let backward = self.0.context.device().compute().record()?;
        let mut update = |rate, pieces: &[Update]| update(rate, &factor, pieces);
        self.update_hosted(false, Some(&backward), &rule, &mut update)?;
        self.update_placed(false, &rule, &mut update)
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
    factor: &Tensor,
    update: &mut impl FnMut(f64, &Tensor, &[Update]) -> Result<(), E>,
) -> Result<(), E> {
    let mut all = groups.drain(..);
    all.try_for_each(|(rate, pieces)| update(rate, factor, &pieces))
}

/// The tensors of a part of a bucket's range.
pub(super) struct PartTensors<'a> {
    pub(super) weights: &'a Tensor,
    pub(super) gradients: &'a Tensor,
    pub(super) states: &'a [Tensor],
    /// The weights that a forward reads, if others are updated.
    pub(super) compute: Option<&'a Tensor>,
}

/// Adds a piece for each parameter of a bucket that has elements in `part` of its range, to which the tensors belong.
///
/// # Errors
/// None in practice: parts lie within their buckets.
pub(super) fn add(
    bucket: &Bucket,
    tensors: &PartTensors<'_>,
    part: &Range<usize>,
    rule: &impl Fn(&Parameter) -> UpdateRule,
    groups: &mut Groups,
) -> Result<()> {
    for (index, parameter) in bucket.parameters.iter().enumerate() {
        let UpdateRule {
            rate_factor,
            weight_decay,
        } = rule(parameter);
        let Some(piece) = piece((bucket, index), tensors, part, weight_decay)? else {
            continue;
        };
        match groups.iter_mut().find(|(factor, _)| *factor == rate_factor) {
            Some((_, pieces)) => pieces.push(piece),
            None => groups.push((rate_factor, vec![piece])),
        }
    }
    Ok(())
}

/// The piece of a bucket's parameter, if it has elements in `part` of the bucket's range, to which the tensors belong.
///
/// # Errors
/// None in practice: parts lie within their buckets.
pub(super) fn piece(
    (bucket, index): (&Bucket, usize),
    tensors: &PartTensors<'_>,
    part: &Range<usize>,
    weight_decay: f64,
) -> Result<Option<Update>> {
    let own = common(&bucket.own_place(index), part);
    if own.is_empty() {
        return Ok(None);
    }
    let view = |flat: &Tensor| flat.rows(own.start - part.start, own.len());
    Ok(Some(Update {
        weights: view(tensors.weights)?,
        gradients: view(tensors.gradients)?,
        state: tensors.states.iter().map(view).collect::<Result<_>>()?,
        compute: tensors.compute.map(view).transpose()?,
        weight_decay,
    }))
}
