//! Cross-entropy over shards of a vocabulary with padding.

use crate::{
    machine::compare,
    memory::{FLOATS, Memory, ids, random},
};
use hal::{
    DType, Kernel,
    kernel::{CombineSoftmax, CrossEntropyBackward, SoftmaxStatistics},
};

/// Rows, local columns, first column, vocabulary, elements before the first.
const SHAPES: [[usize; 5]; 5] = [
    [1, 5, 0, 5, 0],
    [20, 65, 65, 129, 1],
    [9, 3000, 0, 2990, 0],
    [4, 64, 128, 100, 0],
    [40, 256, 0, 256, 0],
];

#[test]
fn statistics_of_rows_agree() {
    for ((dtype, spacing), [rows, columns, first_column, vocabulary, before]) in
        FLOATS.iter().flat_map(|f| SHAPES.map(|s| (f, s)))
    {
        let logits: Vec<f64> = random(rows * columns, 1).iter().map(|x| 5.0 * x).collect();
        let memories = [
            Memory::new(*dtype, &logits, before),
            Memory::new(DType::U32, &ids(rows, vocabulary, 2), 0),
            Memory::new(dtype.accumulator(), &vec![0.0; 3 * rows], 0),
        ];
        compare(&memories, 4.0 * spacing.min(2e-7), |m| {
            let [logits, targets, statistics] = [m[0], m[1], m[2]];
            Kernel::SoftmaxStatistics(SoftmaxStatistics {
                logits,
                targets,
                statistics,
                rows,
                columns,
                first_column,
                vocabulary,
                leaf: hal::sums::leaf(vocabulary),
            })
        });
    }
}

#[test]
fn shards_combine_to_a_loss() {
    for (dtype, spacing) in [(DType::F64, 2.3e-16), (DType::F32, 1.2e-7)] {
        for (rows, shards, runs) in [(1, 1, 1), (33, 3, 3), (1500, 2, 1), (1500, 1, 500)] {
            let mut parts: Vec<f64> = random(3 * shards * rows, 1)
                .iter()
                .map(|x| x.abs() + 0.1)
                .collect();
            // The last shard of the last row has no column below the vocabulary.
            let last = 3 * (shards * rows - 1);
            if shards > 1 {
                parts[last..].copy_from_slice(&[f64::NEG_INFINITY, 0.0, 0.0]);
            }
            let memories = [
                Memory::new(dtype, &parts, 0),
                Memory::new(DType::U32, &ids(rows, 50, 2), 0),
                Memory::new(dtype, &vec![0.0; rows], 0),
                Memory::new(dtype, &vec![0.25; runs], 0),
            ];
            // 1500 losses of either sign nearly cancel, and each vendor adds them in an order of its own.
            compare(&memories, 100.0 * spacing, |m| {
                let [parts, targets, log_sum_exp, loss] = [m[0], m[1], m[2], m[3]];
                let scale = 1.0 / rows as f64;
                Kernel::CombineSoftmax(CombineSoftmax {
                    parts,
                    widths: vec![50; shards],
                    rows,
                    targets,
                    log_sum_exp,
                    loss,
                    runs,
                    scale,
                })
            });
        }
    }
}

#[test]
fn gradients_of_logits_agree() {
    let shapes = SHAPES
        .iter()
        .flat_map(|shape| [(*shape, 1), (*shape, shape[0])]);
    let shapes: Vec<([usize; 5], usize)> = shapes.collect();
    for ((dtype, spacing), ([rows, columns, first_column, vocabulary, before], runs)) in FLOATS
        .iter()
        .flat_map(|f| shapes.iter().map(move |s| (f, *s)))
    {
        let wide = dtype.accumulator();
        let memories = [
            Memory::new(*dtype, &random(rows * columns, 1), before),
            Memory::new(DType::U32, &ids(rows, vocabulary, 2), 0),
            Memory::new(wide, &vec![2.5; rows], 0),
            Memory::new(wide, &random(runs, 3), 0),
        ];
        compare(&memories, 2.0 * spacing, |m| {
            let [logits, targets, log_sum_exp, d_loss] = [m[0], m[1], m[2], m[3]];
            Kernel::CrossEntropyBackward(CrossEntropyBackward {
                logits,
                targets,
                log_sum_exp,
                d_loss,
                runs,
                rows,
                columns,
                first_column,
                vocabulary,
                scale: 0.7,
            })
        });
    }
}
