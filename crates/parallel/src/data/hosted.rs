//! Updates on the host's processors of state in their memory: the tensors of a bucket, and the walk over all of them.

use super::{
    ParameterSet, UpdateRule, bucket::Bucket, host_update::HostUpdate, pieces::PieceCut,
    update::Groups,
};
use crate::Parameter;
use std::{ops::Range, rc::Rc};
use tensor::{DType, Device, Error, Event, MemoryKind, Result, Tensor, ops::optimiser::Update};

/// A bucket's state in memory of the host whose processors update it, with the weights in the accumulator type.
#[derive(Clone, Debug)]
pub(super) struct HostedState {
    pub(super) states: Vec<Tensor>,
    pub(super) master: Tensor,
    cut: PieceCut,
}

impl HostedState {
    /// Zeros: `num_states` tensors of `len` elements, and the weights.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(super) fn zeros(
        host: &Rc<HostUpdate>,
        (len, dtype): (usize, DType),
        num_states: usize,
        alignment: usize,
    ) -> Result<HostedState> {
        let zeros = || {
            host.device().allocating(MemoryKind::Optimiser, || {
                Tensor::zeros(host.device(), dtype, &[len])
            })
        };
        let cut = PieceCut::new(len, host.piece_bytes / dtype.bytes(), alignment);
        cut.ranges().for_each(|part| host.expect(part.len()));
        Ok(HostedState {
            states: (0..num_states).map(|_| zeros()).collect::<Result<_>>()?,
            master: zeros()?,
            cut,
        })
    }

    /// A copy of a tensor on the rank's device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; the failure of an update.
    pub(super) fn on_device(&self, device: &Device, tensor: &Tensor) -> Result<Tensor> {
        let copy = device.allocating(MemoryKind::Buffers, || {
            Tensor::empty(device, tensor.dtype(), tensor.shape())
        })?;
        tensor.edit_bytes(|bytes| copy.upload_bytes_on(&device.compute(), bytes))?;
        Ok(copy)
    }
}

/// A part of a bucket with its state.
type HostedPiece<'a> = (&'a Bucket, &'a HostedState, Range<usize>);

impl ParameterSet {
    /// As [`update_pieces`](Self::update_pieces), for state in memory of the host that updates it: the buckets in the order in which
    /// their gradients were reduced. Weights return once the device has passed `backward`, if it is given, which may read the old ones.
    ///
    /// # Cost
    /// Gradients leave and weights return once, beside the update of other pieces. What is updated before `backward` has passed is
    /// rounded once more.
    /// # Errors
    /// As there; [`Error::Invalid`] after an update that has ended with an error.
    pub(super) fn update_hosted<E: From<Error>>(
        &self,
        whole: bool,
        backward: Option<&Event>,
        rule: &impl Fn(&Parameter) -> UpdateRule,
        update: &mut impl FnMut(f64, &[Update]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(host) = &self.0.room.host else {
            return Ok(());
        };
        host.tear()?;
        let buckets = self.buckets_updated(whole);
        let hosted = buckets.filter_map(|bucket| Some((bucket, bucket.state.hosted()?)));
        let mut hosted: Vec<_> = hosted.collect();
        hosted.sort_by_key(|(bucket, _)| bucket.turn.get());
        let mut pieces: Vec<HostedPiece<'_>> = Vec::new();
        for (bucket, state) in hosted {
            pieces.extend(state.cut.ranges().map(|part| (bucket, state, part)));
        }
        let update_piece = |(n, (bucket, state, part)): (usize, &HostedPiece<'_>)| {
            let view = |all: &Tensor| all.rows(part.start, part.len());
            let states = state.states.iter().map(view).collect::<Result<Vec<_>>>()?;
            let mut groups = Groups::new();
            let tensors = (&view(&state.master)?, &states[..]);
            host.begin((n, bucket), tensors, part, rule, &mut groups)?;
            for (rate, updates) in groups {
                update(rate, &updates)?;
            }
            Ok::<(), E>(host.record(n)?)
        };
        let finish = |(n, (bucket, _, part)): (usize, &HostedPiece<'_>)| {
            host.finish(n, bucket, part).map_err(E::from)
        };
        let (mut late, mut has_passed) = (Vec::new(), backward.is_none());
        in_turns(&pieces, update_piece, |(n, piece)| {
            if let Some(backward) = backward.filter(|_| !has_passed) {
                has_passed = backward.is_complete()?;
            }
            match has_passed {
                true => finish((n, piece)),
                false => {
                    late.push(piece.clone());
                    Ok(())
                }
            }
        })?;
        let round = |(n, (_, state, part)): (usize, &HostedPiece<'_>)| {
            let weights = state.master.rows(part.start, part.len())?;
            Ok(host.round(n, &weights)?)
        };
        in_turns(&late, round, finish)?;
        host.mend();
        Ok(())
    }
}

// Begins each piece, and then ends the one before it.
fn in_turns<'a, 'b, E>(
    pieces: &'a [HostedPiece<'b>],
    mut begin: impl FnMut((usize, &'a HostedPiece<'b>)) -> Result<(), E>,
    mut end: impl FnMut((usize, &'a HostedPiece<'b>)) -> Result<(), E>,
) -> Result<(), E> {
    let mut before = None;
    for piece in pieces.iter().enumerate() {
        begin(piece)?;
        if let Some(before) = before.replace(piece) {
            end(before)?;
        }
    }
    before.map_or(Ok(()), end)
}
