//! Variants of one GEMM: with its matrices as stored, or with one of them transposed first.
//!
//! The libraries' kernels for transposed operands can be much slower than those for plain ones, and a copy is cheap
//! beside a large GEMM. Only timing shows which variant is fastest.

use crate::lower::Stored;
use hal::{Gemm, Matrix};

/// One variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// The library takes the matrices as stored.
    AsStored,
    /// The left factor is transposed first.
    TurnA,
    /// The right factor is transposed first.
    TurnB,
}

impl Variant {
    /// All variants, the plain one first.
    pub(super) const ALL: [Variant; 3] = [Variant::AsStored, Variant::TurnA, Variant::TurnB];

    /// Its name in a file of choices.
    pub(super) fn name(self) -> &'static str {
        match self {
            Variant::AsStored => "as-stored",
            Variant::TurnA => "turn-a",
            Variant::TurnB => "turn-b",
        }
    }

    /// The variant of that name.
    pub(super) fn named(name: &str) -> Option<Variant> {
        Variant::ALL
            .into_iter()
            .find(|variant| variant.name() == name)
    }

    /// The matrix to transpose.
    pub(super) fn turned(self, gemm: &Gemm) -> Option<Stored> {
        let (matrix, rows, columns) = match self {
            Variant::AsStored => return None,
            Variant::TurnA => (&gemm.a, gemm.m, gemm.k),
            Variant::TurnB => (&gemm.b, gemm.k, gemm.n),
        };
        let (rows, columns) = if matrix.transposed {
            (columns, rows)
        } else {
            (rows, columns)
        };
        let (address, dtype, leading) = (matrix.data.addr, matrix.data.dtype, matrix.leading);
        Some(Stored {
            address,
            dtype,
            rows,
            columns,
            leading,
        })
    }

    /// The same GEMM, with the transposed matrix read from `address`.
    pub(super) fn with_turned(self, gemm: &Gemm, address: u64) -> Gemm {
        let Some(stored) = self.turned(gemm) else {
            return *gemm;
        };
        let turn = |matrix: &Matrix| {
            let mut data = matrix.data;
            (data.addr, data.len) = (address, stored.rows * stored.columns);
            Matrix {
                data,
                leading: stored.rows,
                transposed: !matrix.transposed,
            }
        };
        match self {
            Variant::AsStored => *gemm,
            Variant::TurnA => Gemm {
                a: turn(&gemm.a),
                ..*gemm
            },
            Variant::TurnB => Gemm {
                b: turn(&gemm.b),
                ..*gemm
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hal::{Batch, DType, Epilogue, RawSlice};

    #[test]
    fn a_turned_matrix_is_as_wide_as_it_was_high() {
        let matrix = |leading, transposed| {
            let data = RawSlice {
                addr: 1,
                len: 0,
                dtype: DType::F32,
            };
            Matrix {
                data,
                leading,
                transposed,
            }
        };
        let (a, b, c) = (matrix(9, true), matrix(8, false), matrix(8, false));
        let gemm = Gemm {
            m: 2,
            n: 7,
            k: 5,
            leaf: hal::sums::leaf(5),
            a,
            b,
            c,
            alpha: 1.0,
            beta: 0.0,
            batch: Batch::ONE,
            epilogue: Epilogue::None,
        };
        let stored = Variant::TurnA.turned(&gemm).unwrap();
        assert_eq!(
            (stored.rows, stored.columns, stored.leading, stored.bytes()),
            (5, 2, 9, 40)
        );
        let turned = Variant::TurnA.with_turned(&gemm, 100);
        assert_eq!(
            (turned.a.data.addr, turned.a.leading, turned.a.transposed),
            (100, 5, false)
        );
        let turned = Variant::TurnB.with_turned(&gemm, 100);
        assert_eq!(
            (turned.b.leading, turned.b.transposed, turned.a),
            (5, true, gemm.a)
        );
        assert_eq!(Variant::AsStored.with_turned(&gemm, 100), gemm);
    }
}
