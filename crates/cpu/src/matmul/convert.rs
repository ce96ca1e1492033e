//! Rows of elements to rows of accumulators and back.
//!
//! Both inline into their callers, so that they are compiled for the processor found at run time.

use crate::element::Element;

/// Writes each element of `row` as its accumulator; `out` is as long.
#[inline(always)]
pub(crate) fn widen<T: Element>(row: &[T], out: &mut [T::Acc]) {
    out.iter_mut().zip(row).for_each(|(out, x)| *out = x.acc());
}

/// Rounds each accumulator of `row` to an element; `out` is as long.
#[inline(always)]
pub(crate) fn narrow<T: Element>(row: &[T::Acc], out: &mut [T]) {
    out.iter_mut()
        .zip(row)
        .for_each(|(out, &x)| *out = T::from_acc(x));
}
