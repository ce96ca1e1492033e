//! Rows of elements to rows of accumulators and back.
//!
//! Both inline into their callers, so that they are compiled for the processor found at run time.

use crate::element::Element;

/// Writes each element of `row` as its accumulator; `out` is as long.
#[inline(always)]
pub(crate) fn widen<T: Element>(row: &[T], out: &mut [T::Acc]) {
    let len = out.len().min(row.len());
    let (out, row) = (&mut out[..len], &row[..len]);
    for i in 0..len {
        out[i] = row[i].acc();
    }
}

/// Rounds each accumulator of `row` to an element; `out` is as long.
#[inline(always)]
pub(crate) fn narrow<T: Element>(row: &[T::Acc], out: &mut [T]) {
    let len = out.len().min(row.len());
    let (out, row) = (&mut out[..len], &row[..len]);
    for i in 0..len {
        out[i] = T::from_acc(row[i]);
    }
}
