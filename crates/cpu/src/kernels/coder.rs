//! Numbers of a block as 8-bit codes, and back.

use super::memory::{BLOCK, Shared};
use crate::element::Real;
use hal::codes::{Codes, DECADES};

/// The shares for which codes stand, and how a magnitude finds its own: a decade by comparisons, a cell by arithmetic, so that
/// loops over it vectorise.
pub(super) struct Coder<A> {
    shares: [A; 256],
    thresholds: [A; DECADES + 1],
    densities: [A; DECADES],
    firsts: [A; DECADES + 1],
    cells: [A; DECADES],
}

impl<A: Real> Coder<A> {
    pub(super) fn new(codes: Codes) -> Coder<A> {
        let first = |decade| A::of(codes.first(decade) as f64);
        Coder {
            shares: codes.shares().map(A::of),
            thresholds: codes.thresholds().map(A::of),
            densities: codes.densities().map(A::of),
            firsts: std::array::from_fn(first),
            cells: std::array::from_fn(|decade| first(decade + 1) - first(decade)),
        }
    }

    /// `len` numbers from `start` on; the rest of the block is 0.
    #[inline(always)]
    pub(super) fn load(&self, codes: Shared<u8>, scale: A, start: usize, len: usize) -> [A; BLOCK] {
        let codes = codes.load_bytes(start, len);
        let mut numbers = [A::ZERO; BLOCK];
        for i in 0..BLOCK {
            numbers[i] = self.shares[usize::from(codes[i])] * scale;
        }
        numbers
    }

    /// The nearest codes of numbers with signs, of magnitudes up to `scale`.
    #[inline(always)]
    pub(super) fn signed(&self, numbers: [A; BLOCK], scale: A) -> [u8; BLOCK] {
        let (mut codes, divisor) = ([0; BLOCK], divisor(scale));
        // 1 has no negative: below, the highest magnitude is the last cell's.
        let last = self.firsts[DECADES] - A::ONE;
        for i in 0..BLOCK {
            let share = numbers[i] / divisor;
            let code = self.magnitude(share.max(-share));
            let negative = if code < last { code } else { last };
            let is_below = share < A::ZERO && code > A::ZERO;
            codes[i] = if is_below {
                negative.small() | 128
            } else {
                code.small()
            };
        }
        codes
    }

    /// The nearest codes of numbers from 0 to `scale`; only 0 has the code of 0.
    #[inline(always)]
    pub(super) fn unsigned(&self, numbers: [A; BLOCK], scale: A) -> [u8; BLOCK] {
        let (mut codes, divisor) = ([0; BLOCK], divisor(scale));
        for i in 0..BLOCK {
            let least = if numbers[i] > A::ZERO {
                A::ONE
            } else {
                A::ZERO
            };
            codes[i] = self.magnitude(numbers[i] / divisor).max(least).small();
        }
        codes
    }

    // The code of a share without a sign, as a number.
    #[inline(always)]
    fn magnitude(&self, share: A) -> A {
        let (mut density, mut cells, mut first) = (A::ZERO, A::ONE, A::ZERO);
        for decade in 0..DECADES {
            let is_here = share >= self.thresholds[decade];
            density = if is_here {
                self.densities[decade]
            } else {
                density
            };
            cells = if is_here { self.cells[decade] } else { cells };
            first = if is_here { self.firsts[decade] } else { first };
        }
        // A decade begins at a tenth of its end: a ninth of its cells lies below.
        let cell = (share * density - cells * A::of(1.0 / 9.0)).max(A::ZERO);
        let cell = if cell < cells { cell } else { cells - A::ONE };
        let code = first + A::of(cell.small().into());
        if share >= self.thresholds[DECADES] {
            self.firsts[DECADES]
        } else {
            code
        }
    }
}

// Numbers of a block whose scale is 0 are 0.
#[inline(always)]
fn divisor<A: Real>(scale: A) -> A {
    if scale > A::ZERO { scale } else { A::ONE }
}
