//! A head's rows as accumulators, in the layouts that the matmuls read.

use super::{BLOCK, GROUP, place::Head};
use crate::element::{Element, Real};
use crate::lanes::Lanes;
use crate::matmul::convert::{narrow, widen};

/// The next multiple of [`GROUP`].
#[inline(always)]
pub(super) fn padded(len: usize) -> usize {
    len.next_multiple_of(GROUP)
}

/// Elements of the panels of `rows` rows of `len` elements.
pub(super) fn panels_len(rows: usize, len: usize) -> usize {
    rows.next_multiple_of(BLOCK) * padded(len)
}

/// Copies rows from `start` on into `to`, as many as fit: rows of `padded(len)` accumulators, multiplied by
/// `scale`.
///
/// Everything beyond the head's last row and beyond the end of a row becomes 0.
#[inline(always)]
pub(super) fn rows<T: Element>(head: &Head<T>, start: usize, scale: T::Acc, to: &mut [T::Acc]) {
    for (row, to) in to.chunks_exact_mut(padded(head.len())).enumerate() {
        if start + row >= head.rows() {
            to.fill(T::Acc::ZERO);
            continue;
        }
        let (values, rest) = to.split_at_mut(head.len());
        widen(head.row(start + row), values);
        values.iter_mut().for_each(|x| *x *= scale);
        rest.fill(T::Acc::ZERO);
    }
}

/// Writes rows of `padded(len)` accumulators as panels: the transposes of [`BLOCK`] rows each, one after another.
///
/// Element e of row r is at `e * BLOCK + r % BLOCK` of panel `r / BLOCK`, which has `padded(len)` x BLOCK elements.
#[inline(always)]
pub(super) fn panels<R: Lanes>(rows: &[R], len: usize, to: &mut [R]) {
    let step = padded(len);
    for (rows, panel) in rows
        .chunks(BLOCK * step)
        .zip(to.chunks_exact_mut(BLOCK * step))
    {
        R::transpose(rows, step, rows.len() / step, len, panel, BLOCK);
    }
}

/// Rounds rows of `padded(len)` accumulators, each multiplied by its `scale`, into the head's rows from `start`
/// on.
#[inline(always)]
pub(super) fn unpack<T: Element>(
    from: &mut [T::Acc],
    scale: impl Fn(usize) -> T::Acc,
    head: &mut Head<T>,
    start: usize,
) {
    let (len, count) = (head.len(), head.rows() - start);
    for (row, from) in from.chunks_exact_mut(padded(len)).take(count).enumerate() {
        let (values, scale) = (&mut from[..len], scale(row));
        values.iter_mut().for_each(|x| *x *= scale);
        narrow(values, head.row_mut(start + row));
    }
}
