//! The right factor of a product: elements in memory, or codes from which each block of them is computed.

use super::{scratch::with_scratch, strided::Strided};
use crate::{
    codes::{CACHE_LINE, Codes},
    element::Element,
    kernels::{memory::Shared, simd::vectorise},
};
use std::ops::Range;

// Rows between the one that is computed and the one that is fetched: they lie too far apart for the processor to foresee the next one.
const AHEAD: usize = 8;

/// A right factor of k x n.
#[derive(Debug)]
pub(super) enum Right<T> {
    Elements(Strided<T>),
    Codes(Codes),
}

impl<T> Clone for Right<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Right<T> {}

impl<T: Element> Right<T> {
    /// The elements in memory, if they are there.
    pub(super) fn elements(self) -> Option<Strided<T>> {
        match self {
            Right::Elements(elements) => Some(elements),
            Right::Codes(_) => None,
        }
    }

    /// Runs `work` on the elements of some terms and columns. Those that codes stand for are there until it ends, in rows.
    pub(super) fn with<R>(
        self,
        terms: Range<usize>,
        columns: Range<usize>,
        work: impl FnOnce(Strided<T>) -> R,
    ) -> R {
        let codes = match self {
            Right::Elements(elements) => return work(elements.from(terms.start, columns.start)),
            Right::Codes(codes) => codes,
        };
        let width = columns.len();
        with_scratch(terms.len() * width, |elements: &mut [T]| {
            // SAFETY: the memory is this thread's own, and outlives the value.
            let shared = unsafe { Shared::of(elements) };
            vectorise(
                #[inline(always)]
                || {
                    for (index, term) in terms.enumerate() {
                        for column in columns.clone().step_by(CACHE_LINE) {
                            codes.fetch(term + AHEAD, column);
                        }
                        codes.write(term, columns.clone(), shared, index * width);
                    }
                },
            );
            work(Strided {
                data: elements.as_mut_ptr(),
                row: width,
                column: 1,
            })
        })
    }
}
