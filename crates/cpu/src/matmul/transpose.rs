//! Transposing f32 matrices.

use std::ops::Range;

/// Writes the transpose of `rows` of `columns` elements, `from_step` apart, as rows that lie `to_step` apart.
///
/// # Safety
/// `from` is live for reading and `to` for writing at all these places, and they do not overlap.
pub(crate) unsafe fn transpose(
    from: *const f32,
    from_step: usize,
    rows: usize,
    columns: usize,
    to: *mut f32,
    to_step: usize,
) {
    let (mut full_rows, mut full_columns) = (0, 0);
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx") {
        (full_rows, full_columns) = (rows / 8 * 8, columns / 8 * 8);
        // SAFETY: AVX is available, as just checked; the caller guarantees the memory.
        unsafe { avx::squares(from, from_step, full_rows, full_columns, to, to_step) };
    }
    // SAFETY: the caller guarantees the memory; these are the columns that the squares left over in each row.
    unsafe {
        singly(
            from,
            from_step,
            0..full_rows,
            full_columns..columns,
            to,
            to_step,
        )
    };
    // SAFETY: as above; these are the rows that the squares left over.
    unsafe { singly(from, from_step, full_rows..rows, 0..columns, to, to_step) };
}

/// Transposes a part, element by element.
///
/// # Safety
/// As [`transpose`], for these rows and columns.
unsafe fn singly(
    from: *const f32,
    from_step: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    to: *mut f32,
    to_step: usize,
) {
    for row in rows {
        for column in columns.clone() {
            // SAFETY: the caller guarantees both places.
            unsafe { *to.add(column * to_step + row) = *from.add(row * from_step + column) };
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx {
    use std::arch::x86_64::*;

    /// Transposes in squares of 8 x 8; `rows` and `columns` are multiples of 8.
    ///
    /// # Safety
    /// As [`super::transpose`], on a processor with AVX.
    #[target_feature(enable = "avx")]
    pub(super) unsafe fn squares(
        from: *const f32,
        from_step: usize,
        rows: usize,
        columns: usize,
        to: *mut f32,
        to_step: usize,
    ) {
        for row in (0..rows).step_by(8) {
            for column in (0..columns).step_by(8) {
                let from = from.wrapping_add(row * from_step + column);
                let to = to.wrapping_add(column * to_step + row);
                // SAFETY: the square lies within what the caller guarantees.
                unsafe { square(from, from_step, to, to_step) };
            }
        }
    }

    /// # Safety
    /// As [`super::transpose`], for 8 rows and 8 columns.
    #[inline]
    #[target_feature(enable = "avx")]
    unsafe fn square(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
        let mut rows = [_mm256_setzero_ps(); 8];
        for row in 0..8 {
            // SAFETY: the caller guarantees 8 elements in each of the 8 rows.
            rows[row] = unsafe { _mm256_loadu_ps(from.add(row * from_step)) };
        }
        let columns = transposed(rows);
        for row in 0..8 {
            // SAFETY: as above.
            unsafe { _mm256_storeu_ps(to.add(row * to_step), columns[row]) };
        }
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

    #[test]
    fn every_element_lands_in_its_place() {
        for (rows, columns) in [(1, 1), (8, 8), (16, 24), (7, 9), (13, 8), (40, 33)] {
            let (from_step, to_step) = (columns + 3, rows + 5);
            let from: Vec<f32> = (0..rows * from_step).map(|i| i as f32).collect();
            let mut to = vec![-1.0; columns * to_step];
            // SAFETY: the vectors have `rows` rows of `from_step` and `columns` rows of `to_step` elements.
            unsafe {
                transpose(
                    from.as_ptr(),
                    from_step,
                    rows,
                    columns,
                    to.as_mut_ptr(),
                    to_step,
                )
            };
            for (row, column) in
                (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)))
            {
                assert_eq!(
                    to[column * to_step + row],
                    from[row * from_step + column],
                    "({row}, {column})"
                );
            }
            assert!(
                (0..columns).all(|row| to[row * to_step + rows..][..5].iter().all(|&x| x == -1.0))
            );
        }
    }
}
