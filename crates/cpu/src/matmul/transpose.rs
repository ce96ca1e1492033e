//! Transposing matrices of 4-byte and of 8-byte words.

use std::ops::Range;

/// Writes the transpose of `rows` of `columns` words, `from_bytes` apart, as rows that lie `to_step` words apart.
///
/// # Safety
/// `from` is live for reading and `to` for writing at all these places, and they do not overlap. `from` need not be
/// aligned.
pub(crate) unsafe fn transpose<W: bytemuck::Pod>(
    from: *const u8,
    from_bytes: usize,
    rows: usize,
    columns: usize,
    to: *mut W,
    to_step: usize,
) {
    let (mut full_rows, mut full_columns) = (0, 0);
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx") {
        let side = avx::side(size_of::<W>());
        (full_rows, full_columns) = (rows / side * side, columns / side * side);
        let (to, to_bytes) = (to.cast::<u8>(), to_step * size_of::<W>());
        // SAFETY: AVX is available, as just checked; the caller guarantees the memory.
        unsafe {
            match size_of::<W>() {
                4 => avx::squares::<4>(from, from_bytes, full_rows, full_columns, to, to_bytes),
                _ => avx::squares::<8>(from, from_bytes, full_rows, full_columns, to, to_bytes),
            }
        };
    }
    let singly = |rows: Range<usize>, columns: Range<usize>| {
        for row in rows {
            for column in columns.clone() {
                let source = from.wrapping_add(row * from_bytes).cast::<W>();
                // SAFETY: the caller guarantees both places.
                unsafe {
                    *to.add(column * to_step + row) = source.add(column).read_unaligned();
                }
            }
        }
    };
    // What the squares left over: the ends of their rows, and the rows below them.
    singly(0..full_rows, full_columns..columns);
    singly(full_rows..rows, 0..columns);
}

#[cfg(target_arch = "x86_64")]
mod avx {
    use super::super::kernel::fetch;
    use std::arch::x86_64::*;

    // Rows between the one that is read and the one that is fetched: the processor foresees few rows at a time.
    const AHEAD: usize = 8;

    /// Rows and columns of a square: as many as a register holds words of `word` bytes.
    pub(super) const fn side(word: usize) -> usize {
        size_of::<__m256>() / word
    }

    /// Transposes words of `WORD` bytes, 4 or 8, in squares; `rows` and `columns` are multiples of their side.
    ///
    /// # Safety
    /// As [`super::transpose`], on a processor with AVX.
    #[target_feature(enable = "avx")]
    pub(super) unsafe fn squares<const WORD: usize>(
        from: *const u8,
        from_bytes: usize,
        rows: usize,
        columns: usize,
        to: *mut u8,
        to_bytes: usize,
    ) {
        for row in (0..rows).step_by(side(WORD)) {
            for column in (0..columns).step_by(side(WORD)) {
                let from = from.wrapping_add(row * from_bytes + WORD * column);
                let to = to.wrapping_add(column * to_bytes + WORD * row);
                // SAFETY: the square lies within what the caller guarantees.
                unsafe {
                    match WORD {
                        4 => square_of_4(from, from_bytes, to, to_bytes),
                        _ => square_of_8(from, from_bytes, to, to_bytes),
                    }
                }
            }
        }
    }

    /// # Safety
    /// As [`super::transpose`], for 8 rows and 8 columns.
    #[inline]
    #[target_feature(enable = "avx")]
    unsafe fn square_of_4(from: *const u8, from_bytes: usize, to: *mut u8, to_bytes: usize) {
        let mut square = [_mm256_setzero_ps(); 8];
        for row in 0..8 {
            // SAFETY: the caller guarantees 8 words in each of the 8 rows.
            square[row] = unsafe { _mm256_loadu_ps(from.add(row * from_bytes).cast()) };
            fetch(from.wrapping_add((row + AHEAD) * from_bytes));
        }
        let square = transposed(square);
        for row in 0..8 {
            // SAFETY: as above.
            unsafe { _mm256_storeu_ps(to.add(row * to_bytes).cast(), square[row]) };
        }
    }

    /// # Safety
    /// As [`super::transpose`], for 4 rows and 4 columns.
    #[inline]
    #[target_feature(enable = "avx")]
    unsafe fn square_of_8(from: *const u8, from_bytes: usize, to: *mut u8, to_bytes: usize) {
        let mut square = [_mm256_setzero_pd(); 4];
        for row in 0..4 {
            // SAFETY: the caller guarantees 4 words in each of the 4 rows.
            square[row] = unsafe { _mm256_loadu_pd(from.add(row * from_bytes).cast()) };
            fetch(from.wrapping_add((row + AHEAD) * from_bytes));
        }
        let (low, high) = (pairs(square[0], square[1]), pairs(square[2], square[3]));
        let square = [
            _mm256_permute2f128_pd::<0x20>(low.0, high.0),
            _mm256_permute2f128_pd::<0x20>(low.1, high.1),
            _mm256_permute2f128_pd::<0x31>(low.0, high.0),
            _mm256_permute2f128_pd::<0x31>(low.1, high.1),
        ];
        for row in 0..4 {
            // SAFETY: as above.
            unsafe { _mm256_storeu_pd(to.add(row * to_bytes).cast(), square[row]) };
        }
    }

    #[inline]
    #[target_feature(enable = "avx")]
    fn pairs(a: __m256d, b: __m256d) -> (__m256d, __m256d) {
        (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b))
    }

    /// Swaps single elements, then pairs, then halves.
    #[inline]
    #[target_feature(enable = "avx")]
    fn transposed(rows: [__m256; 8]) -> [__m256; 8] {
        let pairs = |i: usize| {
            let (a, b) = (rows[2 * i], rows[2 * i + 1]);
            (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b))
        };
        let quads = |i: usize| {
            let ((low_a, high_a), (low_b, high_b)) = (pairs(2 * i), pairs(2 * i + 1));
            [
                _mm256_shuffle_ps::<0x44>(low_a, low_b),
                _mm256_shuffle_ps::<0xee>(low_a, low_b),
                _mm256_shuffle_ps::<0x44>(high_a, high_b),
                _mm256_shuffle_ps::<0xee>(high_a, high_b),
            ]
        };
        let (upper, lower) = (quads(0), quads(1));
        let mut columns = rows;
        for row in 0..4 {
            columns[row] = _mm256_permute2f128_ps::<0x20>(upper[row], lower[row]);
            columns[row + 4] = _mm256_permute2f128_ps::<0x31>(upper[row], lower[row]);
        }
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<W: bytemuck::Pod + PartialEq + std::fmt::Debug>(word: impl Fn(usize) -> W) {
        for (rows, columns) in [(1, 1), (8, 8), (16, 24), (7, 9), (13, 8), (40, 33)] {
            let (from_step, to_step) = (columns + 3, rows + 5);
            let from: Vec<W> = (1..=rows * from_step).map(&word).collect();
            let mut to = vec![word(0); columns * to_step];
            let (bytes, source) = (from_step * size_of::<W>(), from.as_ptr().cast());
            // SAFETY: the vectors have `rows` rows of `from_step` and `columns` rows of `to_step` words.
            unsafe { transpose(source, bytes, rows, columns, to.as_mut_ptr(), to_step) };
            for (row, column) in
                (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)))
            {
                let (found, expected) =
                    (to[column * to_step + row], from[row * from_step + column]);
                assert_eq!(found, expected, "({row}, {column})");
            }
            let beside = |row: usize| &to[row * to_step + rows..][..5];
            assert!((0..columns).all(|row| beside(row).iter().all(|&x| x == word(0))));
        }
    }

    #[test]
    fn every_element_lands_in_its_place() {
        check(|i| i as f32);
        check(|i| i as f64);
        check(|i| i as u32);
    }
}
