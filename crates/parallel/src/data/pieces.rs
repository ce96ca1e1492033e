//! How tensors beyond the device are cut into pieces for an update.

use std::ops::Range;

/// A tensor is cut into at least as many pieces, unless they would be shorter than its alignment: the buffers of a small model's
/// pieces must not be larger than its state.
const LEAST_PIECES: usize = 8;

/// The cut of tensors of one length into pieces, all but the last one of which are equally long.
#[derive(Clone, Copy, Debug)]
pub(super) struct PieceCut {
    /// Elements of a tensor.
    pub(super) len: usize,
    piece_len: usize,
}

impl PieceCut {
    /// Pieces of at most this many elements, but at least one alignment; each begins at a multiple of the alignment.
    pub(super) fn new(len: usize, most: usize, alignment: usize) -> PieceCut {
        let fitting = most.min(len / LEAST_PIECES);
        let piece_len = (fitting / alignment * alignment).max(alignment);
        PieceCut { len, piece_len }
    }

    /// The elements of each piece.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let PieceCut { len, piece_len } = *self;
        let starts = (0..len).step_by(piece_len);
        starts.map(move |start| start..(start + piece_len).min(len))
    }
}
