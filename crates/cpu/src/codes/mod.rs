//! Weights that are stored as codes, and what they stand for.

mod decoder;
mod shares;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::{
    element::{Element, Real},
    kernels::{
        block::blocks,
        memory::{BLOCK, Shared},
    },
    matmul::kernel::fetch,
};
pub(crate) use decoder::{Decoder, Int8, Nf4, Rows};
use hal::{
    DType, RawSlice,
    quantised::{self, Quantised, QuantisedPart},
};
use std::{fmt, ops::Range};

/// Bytes that memory delivers at once: codes of as many columns, or of twice as many.
pub(crate) const CACHE_LINE: usize = 64;

/// A part of a matrix whose elements are codes with a scale for each block.
#[derive(Clone, Copy)]
pub(crate) struct Codes {
    part: QuantisedPart,
    scales: Shared<f32>,
    codes: Shared<u8>,
}

impl fmt::Debug for Codes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.part, f)
    }
}

impl Codes {
    /// The stored weights of a part.
    ///
    /// # Safety
    /// As for [`Shared::new`]: `stored` are its bytes, aligned as [`hal::quantised`] states.
    pub(crate) unsafe fn new(stored: RawSlice, part: QuantisedPart) -> Codes {
        let scales = RawSlice {
            len: part.num_scales(),
            dtype: DType::F32,
            ..stored
        };
        // SAFETY: guaranteed by the caller: the stored weights are aligned, and begin with the scales.
        let scales = unsafe { Shared::<f32>::new(scales) };
        // SAFETY: guaranteed by the caller; the type is the slice's own.
        let stored = unsafe { Shared::<u8>::new(stored) };
        Codes {
            part,
            scales,
            codes: stored.sub(part.first_code(), part.bytes() - part.first_code()),
        }
    }

    /// Sets the elements of `out` from `at` on to what those of some columns of a row stand for.
    #[inline(always)]
    pub(crate) fn write<T: Element>(
        self,
        row: usize,
        columns: Range<usize>,
        out: Shared<T>,
        at: usize,
    ) {
        let codes = self.codes;
        match self.part.format {
            Quantised::Int8 => self.each_run(
                (row, columns, out, at),
                #[inline(always)]
                |start, len| shares::integers(codes, start, len),
            ),
            Quantised::Nf4 => self.each_run(
                (row, columns, out, at),
                #[inline(always)]
                |start, len| shares::normals(codes, start, len),
            ),
        }
    }

    /// Asks for the codes of a row from a column on, and their scales, which are read soon if there is such a row.
    #[inline(always)]
    pub(crate) fn fetch(self, row: usize, column: usize) {
        let element = row * self.part.columns + column;
        fetch(self.codes.address(element * self.part.format.bits() / 8));
        fetch(self.scales.address(self.scale_of(row, column)));
    }

    // The index of the scale of a column in a row, which need not exist.
    #[inline(always)]
    fn scale_of(self, row: usize, column: usize) -> usize {
        let of_row = self.part.blocks_of_row();
        let block = (self.part.first_column + column) / quantised::BLOCK;
        row * of_row.len() + block - of_row.start
    }

    /// Writes shares times scales, of runs of elements of one block; `shares(start, len)` has those of a run.
    #[inline(always)]
    fn each_run<T: Element>(
        self,
        (row, columns, out, at): (usize, Range<usize>, Shared<T>, usize),
        shares: impl Fn(usize, usize) -> [f32; BLOCK],
    ) {
        let (width, first) = (self.part.columns, self.part.first_column);
        let mut begin = columns.start;
        while begin < columns.end {
            let scale = self.scales.get(self.scale_of(row, begin));
            let left = quantised::BLOCK - (first + begin) % quantised::BLOCK;
            let end = (begin + left).min(columns.end);
            let to = at + begin - columns.start;
            let element = row * width + begin;
            if end - begin == quantised::BLOCK {
                // Most blocks are complete; without a loop they take half the time.
                const { assert!(quantised::BLOCK == 2 * BLOCK) };
                scaled(&shares, (element, BLOCK), scale, out, to);
                scaled(&shares, (element + BLOCK, BLOCK), scale, out, to + BLOCK);
            } else {
                blocks(
                    0..end - begin,
                    #[inline(always)]
                    |start, len| scaled(&shares, (element + start, len), scale, out, to + start),
                );
            }
            begin = end;
        }
    }
}

/// Writes the shares of a run times their scale.
#[inline(always)]
fn scaled<T: Element>(
    shares: &impl Fn(usize, usize) -> [f32; BLOCK],
    (start, len): (usize, usize),
    scale: f32,
    out: Shared<T>,
    at: usize,
) {
    let (shares, mut numbers) = (shares(start, len), [Real::ZERO; BLOCK]);
    for i in 0..BLOCK {
        numbers[i] = Real::of(f64::from(shares[i] * scale));
    }
    out.store(at, len, numbers);
}
