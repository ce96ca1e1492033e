//! The forms in which factors are packed and multiplied.

use super::{
    convert::widen,
    kernel::Leaves,
    multiplier::TileSize,
    portable::{ComputeLeaves, SizeOfTile},
    row_leaves::RowLeaves,
    scratch::with_scratch,
    source::Elements,
    strided::Strided,
    transpose::transpose,
};
use crate::{
    codes::Decoder,
    element::{Element, Real},
    lanes::Lanes,
};
use bytemuck::Pod;
use std::{any::TypeId, marker::PhantomData};

/// A form of factors, and the micro-kernel that multiplies them.
pub(super) trait Format: Copy + Send + Sync {
    /// An element of a factor.
    type Source: Element<Acc = Self::Sum>;
    /// What the micro-kernel reads for each step of the depth: [`TERMS`](Self::TERMS) neighbours along k.
    type Word: Pod + Send + Sync;
    /// The type of sums.
    type Sum: Lanes;
    /// Elements of a word.
    const TERMS: usize;
    /// Whether a word is an element as it is stored.
    const STORED: bool;

    /// The most rows of a product that reads the right factor as it is stored: with more, packing it takes less time than reading
    /// sums again for every few words.
    const FEW_ROWS: usize;
    /// Whether vectors of codes can become words where they are multiplied.
    const DECODES: bool;

    /// The instructions to use.
    fn arch(self) -> pulp::Arch;

    /// The size of a full tile.
    fn tile(self) -> TileSize;

    /// Packs the next word of neighbours, whose elements are contiguous, with `rows` of its terms, `step` apart;
    /// missing terms are 0. Inlines into code that is compiled for [`arch`](Self::arch).
    ///
    /// # Safety
    /// `from` has `rows` rows, at least 1, of as many elements as `to`; nobody writes them.
    unsafe fn pack_step(from: *const Self::Source, step: usize, rows: usize, to: &mut [Self::Word]);

    /// Packs rows of contiguous elements, `step` apart, as many and as long as `sizes` states. They become the first
    /// columns of `to`, which has rows of `width` words.
    ///
    /// # Safety
    /// The rows are live, and nobody writes them; `to` holds a word of every row for each step of the depth.
    unsafe fn pack_rows(
        self,
        from: *const Self::Source,
        step: usize,
        sizes: [usize; 2],
        to: &mut [Self::Word],
        width: usize,
    );

    /// Computes leaves of a tile.
    ///
    /// # Safety
    /// As [`Leaves::run`], but for the instructions.
    unsafe fn compute(self, leaves: &Leaves<Self::Word, Self::Sum>);

    /// Adds leaves of few rows, with contiguous rows of the right factor.
    ///
    /// # Safety
    /// The leaves and the right factor hold what [`RowLeaves`] asks for.
    unsafe fn add_rows(self, leaves: RowLeaves<Self::Source, Self::Sum>, b: Strided<Self::Source>);

    /// Likewise with words of the right factor whose rows begin `step` words apart.
    ///
    /// # Safety
    /// As there.
    unsafe fn add_words(
        self,
        leaves: RowLeaves<Self::Source, Self::Sum>,
        b: *const Self::Word,
        step: usize,
    );

    /// Likewise with codes, in a format that [`DECODES`](Self::DECODES) them.
    ///
    /// # Safety
    /// As there.
    unsafe fn add_codes<D: Decoder>(self, leaves: RowLeaves<Self::Source, Self::Sum>, b: D);
}

/// Elements that are packed at once.
pub(super) const BLOCK: usize = 8;

/// Reads `N` elements from index `start` on.
///
/// # Safety
/// They exist.
#[inline(always)]
pub(super) unsafe fn load<T: Copy, const N: usize>(from: *const T, start: usize) -> [T; N] {
    // SAFETY: the caller guarantees them.
    unsafe { from.add(start).cast::<[T; N]>().read_unaligned() }
}

/// Writes `N` words from index `start` on.
#[inline(always)]
pub(super) fn store<W: Copy, const N: usize>(words: [W; N], to: &mut [W], start: usize) {
    let to = &mut to[start..][..N];
    // SAFETY: the slice has N words, as just checked.
    unsafe { to.as_mut_ptr().cast::<[W; N]>().write_unaligned(words) };
}

/// Elements multiplied as their accumulators.
#[derive(Debug)]
pub(super) struct Widened<T> {
    arch: pulp::Arch,
    element: PhantomData<T>,
}

impl<T> Clone for Widened<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Widened<T> {}

impl<T> Widened<T> {
    /// With these instructions.
    pub(super) fn on(arch: pulp::Arch) -> Self {
        Widened {
            arch,
            element: PhantomData,
        }
    }
}

// Rows that are widened before they are transposed: a side of the squares of `transpose`.
const WIDENED_ROWS: usize = 8;

impl<T: Element<Acc: Lanes>> Format for Widened<T> {
    type Source = T;
    type Word = T::Acc;
    type Sum = T::Acc;
    const TERMS: usize = 1;
    // f32 and f64 are their own accumulators; the 16-bit types are shorter than theirs.
    const STORED: bool = size_of::<T>() == size_of::<T::Acc>();
    const FEW_ROWS: usize = 16;
    // f32 alone: other numbers are rounded once more.
    const DECODES: bool = size_of::<T>() == size_of::<f32>();

    fn arch(self) -> pulp::Arch {
        self.arch
    }

    fn tile(self) -> TileSize {
        self.arch.dispatch(SizeOfTile::<T::Acc>(PhantomData))
    }

    #[inline(always)]
    unsafe fn pack_step(from: *const T, _: usize, _: usize, to: &mut [T::Acc]) {
        let mut start = 0;
        while start + BLOCK <= to.len() {
            // SAFETY: the caller guarantees as many elements as `to` has words.
            let elements: [T; BLOCK] = unsafe { load(from, start) };
            let mut words = [T::Acc::ZERO; BLOCK];
            for i in 0..BLOCK {
                words[i] = elements[i].acc();
            }
            store(words, to, start);
            start += BLOCK;
        }
        while start < to.len() {
            // SAFETY: as above.
            to[start] = unsafe { *from.add(start) }.acc();
            start += 1;
        }
    }

    unsafe fn pack_rows(
        self,
        from: *const T,
        step: usize,
        [rows, depth]: [usize; 2],
        to: &mut [T::Acc],
        width: usize,
    ) {
        debug_assert!(to.len() >= depth * width && rows <= width);
        if TypeId::of::<T>() == TypeId::of::<T::Acc>() {
            let bytes = step * size_of::<T>();
            // SAFETY: the types are the same; the caller guarantees the rows, and `to` has been checked.
            return unsafe { transpose(from.cast(), bytes, rows, depth, to.as_mut_ptr(), width) };
        }
        with_scratch(WIDENED_ROWS * depth, |wide: &mut [T::Acc]| {
            for start in (0..rows).step_by(WIDENED_ROWS) {
                let count = WIDENED_ROWS.min(rows - start);
                for row in 0..count {
                    let source = from.wrapping_add((start + row) * step);
                    // SAFETY: the caller guarantees `depth` elements in each of `rows` rows.
                    let source = unsafe { std::slice::from_raw_parts(source, depth) };
                    let target = &mut wide[row * depth..][..depth];
                    self.arch.dispatch(WidenRow { source, target });
                }
                let (bytes, target) = (depth * size_of::<T::Acc>(), to[start..].as_mut_ptr());
                // SAFETY: `wide` has `count` rows of `depth`; `to` has been checked.
                unsafe { transpose(wide.as_ptr().cast(), bytes, count, depth, target, width) };
            }
        });
    }

    unsafe fn compute(self, leaves: &Leaves<T::Acc, T::Acc>) {
        // SAFETY: the caller guarantees the leaves.
        self.arch.dispatch(unsafe { ComputeLeaves::new(leaves) });
    }

    unsafe fn add_rows(self, leaves: RowLeaves<T, T::Acc>, b: Strided<T>) {
        self.arch.dispatch(leaves.on(Elements::of(b)));
    }

    unsafe fn add_words(self, leaves: RowLeaves<T, T::Acc>, b: *const T::Acc, step: usize) {
        self.arch.dispatch(leaves.on(Elements::new(b, step)));
    }

    unsafe fn add_codes<D: Decoder>(self, leaves: RowLeaves<T, T::Acc>, b: D) {
        // Nothing is compiled for other types.
        if const { Self::DECODES } {
            self.arch.dispatch(leaves.on(b));
        }
    }
}

/// Converts a row.
struct WidenRow<'a, T: Element> {
    source: &'a [T],
    target: &'a mut [T::Acc],
}

impl<T: Element> pulp::WithSimd for WidenRow<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        widen(self.source, self.target);
    }
}
