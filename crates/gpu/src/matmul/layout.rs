//! A row-major GEMM in column-major terms.
//!
//! A row-major matrix, read column by column, is its transpose. So a column-major library that computes
//! C' = op(B)' op(A)' stores exactly the row-major C. The operands swap, and each keeps its own transposition.

use crate::table::ColumnMajor;
use hal::{Error, Gemm, Matrix, Result};

/// The GEMM as the library takes it; `None` when C has no elements.
///
/// # Errors
/// [`Error::Invalid`] for a size beyond the library's 32 bits.
pub(super) fn column_major(gemm: &Gemm) -> Result<Option<ColumnMajor>> {
    if gemm.m == 0 || gemm.n == 0 || gemm.batch.count == 0 {
        return Ok(None);
    }
    let [a, b, c] = gemm.batch.strides;
    Ok(Some(ColumnMajor {
        transposed: [gemm.b.transposed, gemm.a.transposed],
        m: size(gemm.n)?,
        n: size(gemm.m)?,
        k: size(gemm.k)?,
        addresses: [gemm.b.data.addr, gemm.a.data.addr, gemm.c.data.addr],
        leading: [leading(&gemm.b)?, leading(&gemm.a)?, leading(&gemm.c)?],
        batch: size(gemm.batch.count)?,
        strides: [b as i64, a as i64, c as i64],
        input: gemm.a.data.dtype,
        output: gemm.c.data.dtype,
        alpha: gemm.alpha,
        beta: gemm.beta,
    }))
}

fn size(size: usize) -> Result<i32> {
    i32::try_from(size)
        .map_err(|_| Error::invalid("gemm", format!("size {size}"), "at most 2147483647"))
}

// The libraries demand at least 1, even for a matrix without elements.
fn leading(matrix: &Matrix) -> Result<i32> {
    size(matrix.leading.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hal::{Batch, DType, Epilogue, RawSlice};

    fn matrix(addr: u64, leading: usize, transposed: bool) -> Matrix {
        Matrix {
            data: RawSlice {
                addr,
                len: 0,
                dtype: DType::F64,
            },
            leading,
            transposed,
        }
    }

    // What a column-major library computes, on numbers instead of addresses.
    fn library(matmul: &ColumnMajor, memory: &mut [f64]) {
        let at = |which: usize, row: i32, column: i32| {
            let (row, column) = if matmul.transposed[which] {
                (column, row)
            } else {
                (row, column)
            };
            matmul.addresses[which] as usize + (column * matmul.leading[which] + row) as usize
        };
        for row in 0..matmul.m {
            for column in 0..matmul.n {
                let sum = (0..matmul.k)
                    .map(|p| memory[at(0, row, p)] * memory[at(1, p, column)])
                    .sum::<f64>();
                let c = matmul.addresses[2] as usize + (column * matmul.leading[2] + row) as usize;
                memory[c] = matmul.alpha * sum + matmul.beta * memory[c];
            }
        }
    }

    #[test]
    fn all_transposes_give_the_row_major_product() {
        let (m, n, k) = (3, 4, 5);
        for (a_transposed, b_transposed) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            let a = matrix(0, if a_transposed { m } else { k } + 1, a_transposed);
            let b = matrix(100, if b_transposed { k } else { n } + 2, b_transposed);
            let gemm = Gemm {
                m,
                n,
                k,
                leaf: hal::sums::leaf(k),
                a,
                b,
                c: matrix(200, n + 3, false),
                alpha: 2.0,
                beta: -1.0,
                batch: Batch::ONE,
                epilogue: Epilogue::None,
            };
            let mut memory: Vec<f64> = (0..300).map(|i| f64::from(i % 17) - 8.0).collect();
            let old = memory.clone();
            library(&column_major(&gemm).unwrap().unwrap(), &mut memory);
            let element = |matrix: &Matrix, row: usize, column: usize| {
                let (row, column) = if matrix.transposed {
                    (column, row)
                } else {
                    (row, column)
                };
                old[matrix.data.addr as usize + row * matrix.leading + column]
            };
            for row in 0..m {
                for column in 0..n {
                    let sum: f64 = (0..k)
                        .map(|p| element(&a, row, p) * element(&b, p, column))
                        .sum();
                    let expected = 2.0 * sum - element(&gemm.c, row, column);
                    assert_eq!(
                        memory[200 + row * (n + 3) + column],
                        expected,
                        "{a_transposed} {b_transposed}"
                    );
                }
            }
        }
    }

    #[test]
    fn sizes_beyond_32_bits_are_refused() {
        let gemm = Gemm {
            m: 1,
            n: 3_000_000_000,
            k: 1,
            leaf: hal::sums::leaf(1),
            a: matrix(0, 1, false),
            b: matrix(0, 1, false),
            c: matrix(0, 1, false),
            alpha: 1.0,
            beta: 0.0,
            batch: Batch::ONE,
            epilogue: Epilogue::None,
        };
        let error = column_major(&gemm).unwrap_err().to_string();
        assert_eq!(error, "gemm: size 3000000000, needs at most 2147483647");
    }
}
