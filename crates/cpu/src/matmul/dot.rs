//! bf16 factors on processors that multiply pairs: `vdpbf16ps` adds two products to each sum.
//!
//! The instruction treats denormal factors and sums as 0, and rounds each addition to the nearest even f32.

use super::{
    format::{BLOCK, Format, load, store},
    kernel::Leaves,
    multiplier::{Multiplier, TileSize},
    row_leaves::RowLeaves,
    source::{Elements, Source},
    strided::Strided,
    transpose::transpose,
};
use crate::codes::Decoder;
use half::bf16;
use pairs::{PairRows, PairsOfCodes, PairsOfRow};
use std::arch::x86_64::*;

mod pairs;

/// Pairs of bf16 that are neighbours along k.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pairs {
    // Only `detect` makes this, so the processor has the instructions.
    arch: pulp::Arch,
}

impl Pairs {
    /// The format, if this processor multiplies pairs.
    pub(super) fn detect() -> Option<Pairs> {
        let arch = pulp::Arch::new();
        (matches!(arch, pulp::Arch::V4(_)) && is_x86_feature_detected!("avx512bf16"))
            .then_some(Pairs { arch })
    }
}

impl Format for Pairs {
    type Source = bf16;
    type Word = u32;
    type Sum = f32;
    const TERMS: usize = 2;
    const STORED: bool = false;
    const FEW_ROWS: usize = 4;
    const DECODES: bool = true;

    fn arch(self) -> pulp::Arch {
        self.arch
    }

    fn tile(self) -> TileSize {
        TileSize::of::<Dot>()
    }

    #[inline(always)]
    unsafe fn pack_step(from: *const bf16, step: usize, rows: usize, to: &mut [u32]) {
        let mut start = 0;
        while start + BLOCK <= to.len() {
            // SAFETY: the caller guarantees as many elements as `to` has words, in each of `rows` rows.
            let first: [bf16; BLOCK] = unsafe { load(from, start) };
            let second = match rows {
                1 => [bf16::ZERO; BLOCK],
                // SAFETY: as above.
                _ => unsafe { load(from.wrapping_add(step), start) },
            };
            let mut words = [0; BLOCK];
            for i in 0..BLOCK {
                words[i] = pair(first[i], second[i]);
            }
            store(words, to, start);
            start += BLOCK;
        }
        while start < to.len() {
            let second = match rows {
                1 => bf16::ZERO,
                // SAFETY: as above.
                _ => unsafe { *from.add(step + start) },
            };
            // SAFETY: as above.
            to[start] = pair(unsafe { *from.add(start) }, second);
            start += 1;
        }
    }

    unsafe fn pack_rows(
        self,
        from: *const bf16,
        step: usize,
        [rows, depth]: [usize; 2],
        to: &mut [u32],
        width: usize,
    ) {
        debug_assert!(to.len() >= depth.div_ceil(2) * width && rows <= width);
        let (words, bytes) = (depth / 2, step * size_of::<bf16>());
        // SAFETY: two neighbours along k are a word as they are stored; the caller guarantees the rows.
        unsafe { transpose(from.cast(), bytes, rows, words, to.as_mut_ptr(), width) };
        if depth % 2 == 1 {
            for row in 0..rows {
                // SAFETY: the caller guarantees `depth` elements in each of `rows` rows.
                let last = unsafe { *from.add(row * step + depth - 1) };
                to[words * width + row] = pair(last, bf16::ZERO);
            }
        }
    }

    unsafe fn compute(self, leaves: &Leaves<u32, f32>) {
        // SAFETY: `self` exists only where the processor has the instructions; the caller guarantees the leaves.
        unsafe { compute(leaves) }
    }

    unsafe fn add_rows(self, leaves: RowLeaves<bf16, f32>, b: Strided<bf16>) {
        let terms = leaves.terms;
        let rows = |elements| PairRows { elements, terms };
        // SAFETY: as above.
        unsafe { add(&leaves, rows(Elements::of(b))) }
    }

    unsafe fn add_words(self, leaves: RowLeaves<bf16, f32>, b: *const u32, step: usize) {
        // SAFETY: as above.
        unsafe { add(&leaves, Elements::new(b, step)) }
    }

    unsafe fn add_codes<D: Decoder>(self, leaves: RowLeaves<bf16, f32>, b: D) {
        let terms = leaves.terms;
        // SAFETY: as above.
        unsafe { add(&leaves, PairsOfCodes { codes: b, terms }) }
    }
}

#[inline(always)]
fn pair(first: bf16, second: bf16) -> u32 {
    u32::from(first.to_bits()) | u32::from(second.to_bits()) << 16
}

/// # Safety
/// As [`Leaves::run`], on a processor with the features named here.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512bf16,avx2,fma")]
unsafe fn compute(leaves: &Leaves<u32, f32>) {
    // SAFETY: the caller guarantees the leaves; this function is compiled for the multiplier's instructions.
    unsafe { leaves.run(Dot(())) }
}

/// # Safety
/// As [`RowLeaves::add`], on a processor with the features named here.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512bf16,avx2,fma")]
unsafe fn add<B: Source<Dot>>(leaves: &RowLeaves<bf16, f32>, b: B) {
    let left = PairsOfRow {
        a: leaves.a,
        terms: leaves.terms,
    };
    // SAFETY: the caller guarantees the leaves; this function is compiled for the multiplier's instructions.
    unsafe { leaves.add(Dot(()), left, b) }
}

/// The multiplier of pairs of bf16; only [`compute`] and [`add`] make it.
#[derive(Clone, Copy, Debug)]
struct Dot(());

impl Multiplier for Dot {
    type Word = u32;
    type Factors = __m512bh;
    type Sums = __m512;
    type Sum = f32;
    const TILE_ROWS: usize = 8;

    #[inline(always)]
    fn zero(self) -> __m512 {
        // SAFETY: only a function compiled for AVX-512 makes `Dot`.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    fn splat(self, word: u32) -> __m512bh {
        // SAFETY: as above; 32 bf16 have the size of 16 words, and any bits are bf16.
        unsafe { std::mem::transmute(_mm512_set1_epi32(word.cast_signed())) }
    }

    #[inline(always)]
    unsafe fn load(self, words: *const u32) -> __m512bh {
        // SAFETY: as above, and the caller guarantees 16 words.
        unsafe { std::mem::transmute(_mm512_loadu_si512(words.cast())) }
    }

    #[inline(always)]
    fn fused(self, left: __m512bh, right: __m512bh, sums: __m512) -> __m512 {
        // SAFETY: as above, with AVX512_BF16.
        unsafe { _mm512_dpbf16_ps(sums, left, right) }
    }

    #[inline(always)]
    fn add(self, left: __m512, right: __m512) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_add_ps(left, right) }
    }
}
