//! Sums over rows and columns, their means and directions, over more matrices than fit one launch: the bits of the reference
//! vendor.

use crate::{
    machine::compare,
    memory::{Memory, random},
};
use hal::{
    DType, Kernel, RawSlice,
    kernel::{
        ClipDirections, ClipDirectionsTensor, FactorDirections, FactorDirectionsTensor,
        FactorMeans, FactorMeansTensor, LineLargest, LineLargestTensor, LinePlace, LineSquares,
        LineSquaresTensor,
    },
};

const MATRICES: usize = 40;
const TYPES: [DType; 2] = [DType::F64, DType::F32];

/// Parts of rows that begin and end anywhere: more columns than a block, one column, one row, none, and small ones.
fn part(matrix: usize) -> (LinePlace, usize) {
    let [columns, start, len] = match matrix % 6 {
        0 => [700, 3, 20_003],
        1 => [33, 20, 13],
        2 => [1, 0, 300],
        3 => [5000, 0, 5000],
        4 => [64, 63, 0],
        _ => [9, 2, 7 + matrix],
    };
    (LinePlace { columns, start }, len)
}

fn rows(matrix: usize) -> usize {
    let (place, len) = part(matrix);
    place.num_rows(len).unwrap()
}

fn positive(len: usize, seed: u64) -> Vec<f64> {
    let numbers = random(len, seed);
    numbers.iter().map(|x| x.abs() + 0.01).collect()
}

/// Elements, and for rows and for columns the largest, at least `least`, sums, means and factors of each matrix.
fn memories(dtype: DType, factor: f64, least: f64) -> Vec<Memory> {
    let mut all = Vec::new();
    for matrix in 0..MATRICES {
        let ((place, len), seed) = (part(matrix), matrix as u64 * 9);
        all.push(Memory::new(dtype, &random(len, seed), matrix % 4));
        for (of, lines) in [rows(matrix), place.columns].into_iter().enumerate() {
            let numbers = |which: u64| positive(lines, seed + 4 * of as u64 + which);
            let largest: Vec<f64> = numbers(1).iter().map(|x| x + least).collect();
            all.extend([
                Memory::new(DType::F64, &largest, matrix % 2),
                Memory::new(DType::F64, &vec![0.25; lines], matrix % 2),
                Memory::new(dtype, &numbers(3), matrix % 3),
                Memory::new(dtype, &vec![0.0; lines], 0),
            ]);
        }
    }
    all.push(Memory::new(DType::F64, &[factor], 0));
    all
}

fn matrices<T>(m: &[RawSlice], of: impl Fn(usize, &[RawSlice]) -> T) -> Vec<T> {
    let matrices = m[..m.len() - 1].chunks(9).enumerate();
    matrices.map(|(matrix, m)| of(matrix, m)).collect()
}

fn largest(m: &[RawSlice]) -> Kernel {
    Kernel::LineLargest(LineLargest {
        tensors: matrices(m, |matrix, m| LineLargestTensor {
            x: m[0],
            place: part(matrix).0,
            rows: m[1],
            columns: (matrix % 7 != 5).then_some(m[5]),
        }),
    })
}

fn squares(m: &[RawSlice]) -> Kernel {
    Kernel::LineSquares(LineSquares {
        tensors: matrices(m, |matrix, m| LineSquaresTensor {
            x: m[0],
            place: part(matrix).0,
            row_largest: m[1],
            row_sums: m[2],
            row_terms: 3 * part(matrix).0.columns,
            column_largest: (matrix % 7 != 5).then_some(m[5]),
            column_sums: (matrix % 7 != 5).then_some(m[6]),
            column_terms: 1 + rows(matrix),
        }),
    })
}

fn means(m: &[RawSlice]) -> Kernel {
    // A matrix without rows is not one.
    let tensors = matrices(m, |_, m| FactorMeansTensor {
        largest: [m[1], m[5]],
        sums: [m[2], m[6]],
        means: [m[3], m[7]],
        factors: [m[4], m[8]],
    });
    let whole = tensors.into_iter().filter(|tensor| tensor.means[0].len > 0);
    Kernel::FactorMeans(FactorMeans {
        tensors: whole.collect(),
        factor: *m.last().unwrap(),
        keep: 0.7,
        epsilon: 1e-30,
    })
}

fn directions(m: &[RawSlice]) -> Kernel {
    Kernel::FactorDirections(FactorDirections {
        tensors: matrices(m, |matrix, m| FactorDirectionsTensor {
            gradients: m[0],
            place: part(matrix).0,
            factors: [m[3], m[7]],
        }),
        factor: *m.last().unwrap(),
    })
}

fn clips(m: &[RawSlice]) -> Kernel {
    let tensors = matrices(m, |matrix, m| ClipDirectionsTensor {
        largest: m[1],
        sums: m[2],
        out: m[6].part(0, 2.min(m[6].len)),
        elements: 1 + part(matrix).1,
    });
    let held = tensors.into_iter().filter(|tensor| tensor.out.len == 2);
    Kernel::ClipDirections(ClipDirections {
        tensors: held.collect(),
        factor: *m.last().unwrap(),
        most: 0.5,
    })
}

#[test]
fn sums_means_and_directions_have_the_same_bits() {
    for dtype in TYPES {
        for factor in [0.7, f64::NAN] {
            compare(&memories(dtype, factor, 0.0), 0.0, largest);
            // The largest are those of the elements, of up to 5 deviations.
            let memories = memories(dtype, factor, 8.0);
            for kernel in [squares, means, directions, clips] {
                compare(&memories, 0.0, kernel);
            }
        }
    }
}
