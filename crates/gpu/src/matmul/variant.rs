//! Variants of one GEMM: as the library chooses, with one of its matrices transposed first, or by a chosen algorithm.
//!
//! The libraries' kernels for transposed operands can be much slower than those for plain ones, and a copy is cheap
//! beside a large GEMM. The algorithm that a library expects to be fastest often is not. Only timing shows which variant is.

use super::lt::WORKSPACE_BYTES;
use crate::lower::Stored;
use hal::{Epilogue, Gemm, Matrix};
use std::fmt;

/// Algorithms that are timed for a GEMM.
pub(super) const MOST_ALGORITHMS: usize = 8;

/// One variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// The library takes the matrices as stored, and chooses itself.
    AsStored,
    /// The left factor is transposed first.
    TurnA,
    /// The right factor is transposed first.
    TurnB,
    /// The algorithm of that number among those that cuBLASLt or hipBLASLt finds, from 0 on.
    Algorithm(usize),
}

impl Variant {
    /// The variant of a GEMM for which nothing is chosen.
    pub(super) fn default_of(gemm: &Gemm) -> Variant {
        match gemm.epilogue {
            Epilogue::None => Variant::AsStored,
            _ => Variant::Algorithm(0),
        }
    }

    /// All variants of a GEMM with that many algorithms, the default first. Only algorithms have epilogues.
    pub(super) fn all_of(gemm: &Gemm, num_algorithms: usize) -> Vec<Variant> {
        let algorithms = (0..num_algorithms).map(Variant::Algorithm);
        let others = [Variant::AsStored, Variant::TurnA, Variant::TurnB];
        let others = others
            .into_iter()
            .filter(|_| gemm.epilogue == Epilogue::None);
        others.chain(algorithms).collect()
    }

    /// The variant of that name.
    pub(super) fn named(name: &str) -> Option<Variant> {
        let algorithms = (0..MOST_ALGORITHMS).map(Variant::Algorithm);
        [Variant::AsStored, Variant::TurnA, Variant::TurnB]
            .into_iter()
            .chain(algorithms)
            .find(|variant| variant.to_string() == name)
    }

    /// Bytes of scratch memory that it needs.
    pub(super) fn room_bytes(self, gemm: &Gemm) -> usize {
        match self {
            Variant::Algorithm(_) => WORKSPACE_BYTES,
            _ => self.turned(gemm).map_or(0, |stored| stored.bytes()),
        }
    }

    /// The matrix to transpose.
    pub(super) fn turned(self, gemm: &Gemm) -> Option<Stored> {
        let (matrix, rows, columns) = match self {
            Variant::AsStored | Variant::Algorithm(_) => return None,
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
            Variant::AsStored | Variant::Algorithm(_) => *gemm,
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

/// The name in a file of choices.
impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Variant::AsStored => f.write_str("as-stored"),
            Variant::TurnA => f.write_str("turn-a"),
            Variant::TurnB => f.write_str("turn-b"),
            Variant::Algorithm(index) => write!(f, "algorithm-{}", index + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hal::{Batch, DType, RawSlice};

    #[test]
    fn a_name_reads_back() {
        for variant in (0..MOST_ALGORITHMS).map(Variant::Algorithm).chain([
            Variant::AsStored,
            Variant::TurnA,
            Variant::TurnB,
        ]) {
            assert_eq!(Variant::named(&variant.to_string()), Some(variant));
        }
        for name in ["", "algorithm-0", "algorithm-9", "algorithm-01", "turn"] {
            assert_eq!(Variant::named(name), None, "{name}");
        }
    }

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
