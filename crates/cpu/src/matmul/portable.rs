//! The multiplier of every processor that pulp knows, for factors of the type of the sums.

use super::{
    kernel::Leaves,
    multiplier::{FEW_ROWS, MANY_ROWS, Multiplier, TileSize},
};
use crate::lanes::Lanes;
use pulp::{Simd, WithSimd};
use std::marker::PhantomData;

/// Vectors of pulp.
#[derive(Debug)]
pub(super) struct Portable<R, S> {
    simd: S,
    real: PhantomData<R>,
}

impl<R, S: Copy> Clone for Portable<R, S> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<R, S: Copy> Copy for Portable<R, S> {}

impl<R, S: Copy> Portable<R, S> {
    /// Those of a processor.
    #[inline(always)]
    pub(super) fn on(simd: S) -> Self {
        Portable {
            simd,
            real: PhantomData,
        }
    }

    /// Its instructions.
    #[inline(always)]
    pub(super) fn simd(self) -> S {
        self.simd
    }
}

impl<R: Lanes, S: Simd> Multiplier for Portable<R, S> {
    type Word = R;
    type Factors = R::Vector<S>;
    type Sums = R::Vector<S>;
    type Sum = R;
    const TILE_ROWS: usize = if S::REGISTER_COUNT >= 32 {
        MANY_ROWS
    } else {
        FEW_ROWS
    };

    #[inline(always)]
    fn zero(self) -> Self::Sums {
        R::splat(self.simd, R::ZERO)
    }

    #[inline(always)]
    fn splat(self, word: R) -> Self::Factors {
        R::splat(self.simd, word)
    }

    #[inline(always)]
    unsafe fn load(self, words: *const R) -> Self::Factors {
        // SAFETY: the caller guarantees a vector of them.
        unsafe { words.cast::<Self::Factors>().read_unaligned() }
    }

    #[inline(always)]
    fn fused(self, left: Self::Factors, right: Self::Factors, sums: Self::Sums) -> Self::Sums {
        R::fused(self.simd, left, right, sums)
    }

    #[inline(always)]
    fn add(self, left: Self::Sums, right: Self::Sums) -> Self::Sums {
        R::plus(self.simd, left, right)
    }
}

/// Computes leaves with the vectors of a processor.
#[derive(Debug)]
pub(super) struct ComputeLeaves<'a, R>(&'a Leaves<'a, R, R>);

impl<'a, R> ComputeLeaves<'a, R> {
    /// # Safety
    /// The leaves hold what [`Leaves::run`] asks for, and are computed once.
    pub(super) unsafe fn new(leaves: &'a Leaves<R, R>) -> Self {
        ComputeLeaves(leaves)
    }
}

impl<R: Lanes> WithSimd for ComputeLeaves<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // SAFETY: the caller of `new` guarantees the memory; `simd` proves the instructions.
        unsafe { self.0.run(Portable::on(simd)) }
    }
}

/// The size of a full tile of a processor's vectors.
#[derive(Debug)]
pub(super) struct SizeOfTile<R>(pub(super) PhantomData<R>);

impl<R: Lanes> WithSimd for SizeOfTile<R> {
    type Output = TileSize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> TileSize {
        TileSize::of::<Portable<R, S>>()
    }
}
