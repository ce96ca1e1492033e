//! The update of parameters whose state is beyond the device: piece after piece of it arrives, is updated, and returns.

use super::{
    ParameterSet, UpdateRule,
    bucket::Bucket,
    placed::PlacedState,
    placement::StateStore,
    update::{Groups, PartTensors, add},
};
use crate::Parameter;
use offload::Visit;
use std::{collections::BTreeMap, ops::Range};
use tensor::{Error, Result, Tensor, ops::optimiser::Update};

impl ParameterSet {
    /// As [`update_pieces`](Self::update_pieces), for state in a store.
    ///
    /// # Cost
    /// All of it arrives and returns once, beside the update of other pieces.
    /// # Errors
    /// As there.
    pub(super) fn update_placed<E: From<Error>>(
        &self,
        whole: bool,
        rule: &impl Fn(&Parameter) -> UpdateRule,
        update: &mut impl FnMut(f64, &[Update]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut pieces = BTreeMap::new();
        for bucket in self.buckets_updated(whole) {
            let placed = bucket.state.placed().into_iter();
            let of_bucket = placed.flat_map(|placed| placed.pieces().map(move |at| (placed, at)));
            for (placed, (number, range)) in of_bucket {
                let piece = PlacedPiece {
                    bucket,
                    placed,
                    range,
                };
                pieces.insert(number, piece);
            }
        }
        let Some(store) = pieces.values().map(|piece| &piece.placed.store).next() else {
            return Ok(());
        };
        let numbers: Vec<usize> = pieces.keys().copied().collect();
        let mut pass = UpdatePass {
            store,
            pieces: &pieces,
            loaded: 0,
            unloaded: 0,
            rule,
            update,
        };
        store.store.borrow_mut().walk(&numbers, &mut pass)
    }
}

/// A run of a bucket's range, with its state in one piece of the store.
struct PlacedPiece<'a> {
    bucket: &'a Bucket,
    placed: &'a PlacedState,
    range: Range<usize>,
}

impl PlacedPiece<'_> {
    // The buffer of this piece, which is the n-th of a walk.
    fn slot(&self, n: usize) -> Result<Tensor> {
        let elements = self.placed.num_tensors() * self.range.len();
        self.placed.store.slot(n, elements)
    }

    // The update of this piece, which is the n-th of a walk.
    fn add(
        &self,
        n: usize,
        rule: &impl Fn(&Parameter) -> UpdateRule,
        groups: &mut Groups,
    ) -> Result<()> {
        let (bucket, len) = (self.bucket, self.range.len());
        let slot = self.slot(n)?;
        let tensor = |index: usize| slot.rows(index * len, len);
        let states = (0..self.placed.num_states).map(tensor);
        let states = states.collect::<Result<Vec<_>>>()?;
        let master = self
            .placed
            .has_master
            .then(|| tensor(self.placed.master_index()));
        let master = master.transpose()?;
        if let (Some(host), Some(master)) = (&self.placed.store.host, &master) {
            let tensors = (master, &states[..]);
            return host.begin((n, bucket), tensors, &self.range, rule, groups);
        }
        let Some(gradients) = bucket.own_gradients()? else {
            return Ok(());
        };
        let values = bucket.own_values(&self.range)?;
        let tensors = PartTensors {
            weights: master.as_ref().unwrap_or(&values),
            gradients: &gradients.rows(self.range.start, len)?,
            states: &states,
            compute: master.is_some().then_some(&values),
        };
        add(bucket, &tensors, &self.range, rule, groups)
    }
}

/// A walk over pieces that updates them.
struct UpdatePass<'a, R, U> {
    store: &'a StateStore,
    pieces: &'a BTreeMap<usize, PlacedPiece<'a>>,
    loaded: usize,
    unloaded: usize,
    rule: &'a R,
    update: &'a mut U,
}

impl<E, R, U> Visit<E> for UpdatePass<'_, R, U>
where
    E: From<Error>,
    R: Fn(&Parameter) -> UpdateRule,
    U: FnMut(f64, &[Update]) -> Result<(), E>,
{
    fn load(&mut self, piece: usize, bytes: &[u8]) -> Result<(), E> {
        let piece = &self.pieces[&piece];
        let (n, slot) = (self.loaded, piece.slot(self.loaded)?);
        self.loaded += 1;
        slot.upload_bytes_on(&self.store.arrivals, bytes)?;
        let mut groups = Groups::new();
        piece.add(n, self.rule, &mut groups)?;
        for (factor, updates) in groups {
            (self.update)(factor, &updates)?;
        }
        // Before the next update is queued, behind which this piece would otherwise return.
        if let Some(host) = &self.store.host {
            host.record(n)?;
        }
        Ok(slot.record_uses()?)
    }

    // The host waits here, for an update behind which the next one is queued already.
    fn unload(&mut self, piece: usize, bytes: &mut [u8]) -> Result<(), E> {
        let (n, piece) = (self.unloaded, &self.pieces[&piece]);
        let slot = piece.slot(n)?;
        self.unloaded += 1;
        if let Some(host) = &self.store.host {
            host.finish(n, piece.bucket, &piece.range)?;
        }
        Ok(slot.download_on(&self.store.returns, bytes)?)
    }
}
