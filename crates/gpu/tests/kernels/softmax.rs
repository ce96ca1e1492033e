//! Sums of rows, softmax and its logarithm.

use crate::{
    machine::compare,
    memory::{FLOATS, Memory, random},
};
use hal::{
    Kernel,
    kernel::{RowSum, Softmax, SoftmaxBackward},
};

/// Rows, columns, and elements before the first.
const SHAPES: [(usize, usize, usize); 5] = [
    (1, 1, 0),
    (3, 5, 1),
    (70, 64, 0),
    (33, 130, 1),
    (5, 2100, 0),
];

#[test]
fn rows_are_summed() {
    for ((dtype, spacing), (rows, columns, before)) in
        FLOATS.iter().flat_map(|f| SHAPES.map(|s| (f, s)))
    {
        let memories = [
            Memory::new(*dtype, &random(rows * columns, 1), before),
            Memory::new(*dtype, &vec![0.0; rows], before),
        ];
        // Up to 2100 numbers are added, and each vendor has an order of its own.
        compare(&memories, 16.0 * spacing, |m| {
            let (x, out) = (m[0], m[1]);
            Kernel::RowSum(RowSum {
                x,
                out,
                rows,
                columns,
            })
        });
    }
}

#[test]
fn softmax_and_its_gradient_agree() {
    for ((dtype, spacing), (rows, columns, before)) in
        FLOATS.iter().flat_map(|f| SHAPES.map(|s| (f, s)))
    {
        let x: Vec<f64> = random(rows * columns, 1).iter().map(|x| 5.0 * x).collect();
        let x = Memory::new(*dtype, &x, before);
        let d_out = Memory::new(*dtype, &random(rows * columns, 2), before);
        let other = Memory::new(*dtype, &vec![0.0; rows * columns], before);
        for log in [false, true] {
            compare(&[x.clone(), other.clone()], 16.0 * spacing, |m| {
                let (x, out) = (m[0], m[1]);
                Kernel::Softmax(Softmax {
                    x,
                    out,
                    rows,
                    columns,
                    log,
                })
            });
            // Any numbers serve as the result of a softmax, if their powers are no larger than 1.
            let y: Vec<f64> = random(rows * columns, 3).iter().map(|y| -y.abs()).collect();
            let memories = [
                Memory::new(*dtype, &y, before),
                d_out.clone(),
                other.clone(),
            ];
            for d_x in [2, 1] {
                compare(&memories, 32.0 * spacing, |m| {
                    Kernel::SoftmaxBackward(SoftmaxBackward {
                        out: m[0],
                        d_out: m[1],
                        d_x: m[d_x],
                        rows,
                        columns,
                        log,
                    })
                });
            }
        }
    }
}
