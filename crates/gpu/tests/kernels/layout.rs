//! Dimensions permuted or repeated, and rows selected by a mask.

use crate::{
    machine::compare,
    memory::{Memory, random},
};
use hal::{
    DType, Kernel,
    kernel::{CopyStrided, SelectRows},
};

fn values(len: usize, seed: u64) -> Vec<f64> {
    let numbers = random(len, seed);
    numbers.iter().map(|x| (x.abs() * 100.0).floor()).collect()
}

#[test]
fn dims_are_permuted_and_repeated() {
    let cases = [
        // A transposition, a swap of inner dims, a repeated column, a repeated row.
        ([1, 1, 33, 70], [0, 0, 1, 33]),
        ([2, 3, 5, 8], [120, 8, 24, 1]),
        ([1, 4, 9, 17], [0, 9, 1, 0]),
        ([1, 1, 40, 6], [0, 0, 0, 1]),
    ];
    for (dtype, (sizes, strides)) in DType::ALL
        .into_iter()
        .flat_map(|dtype| cases.map(|case| (dtype, case)))
    {
        let reach: usize = (0..4).map(|dim| (sizes[dim] - 1) * strides[dim]).sum();
        let len = sizes.iter().product();
        for before in [0, 1] {
            let memories = [
                Memory::new(dtype, &values(reach + 1, 1), before),
                Memory::new(dtype, &vec![0.0; len], before),
            ];
            compare(&memories, 0.0, |m| {
                let (src, dst) = (m[0], m[1]);
                Kernel::CopyStrided(CopyStrided {
                    src,
                    dst,
                    sizes,
                    strides,
                })
            });
        }
    }
}

#[test]
fn rows_are_chosen_by_a_mask() {
    for (dtype, (rows, columns, before)) in DType::ALL
        .into_iter()
        .flat_map(|dtype| [(1, 1, 0), (70, 33, 1), (9, 300, 0)].map(|shape| (dtype, shape)))
    {
        let mask: Vec<f64> = (0..rows).map(|row| (row % 3) as f64).collect();
        let memories = [
            Memory::new(DType::U32, &mask, 0),
            Memory::new(dtype, &values(rows * columns, 1), before),
            Memory::new(dtype, &values(rows * columns, 2), before),
            Memory::new(dtype, &vec![7.0; rows * columns], before),
        ];
        for (a, b) in [(true, true), (true, false), (false, true)] {
            compare(&memories, 0.0, |m| {
                Kernel::SelectRows(SelectRows {
                    mask: m[0],
                    a: a.then_some(m[1]),
                    b: b.then_some(m[2]),
                    out: m[3],
                    rows,
                    columns,
                })
            });
        }
    }
}
