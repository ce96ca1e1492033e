use super::{
    nodes::{cut, nodes},
    *,
};
use hal::kernel::{CombineSoftmax, CrossEntropyBackward, SoftmaxStatistics};
use std::ops::Range;

const VOCABULARY: usize = 90;
const ROWS: usize = 700;

/// Logits of all columns, 10 of them padding, and targets: one row without loss.
fn inputs(dtype: DType) -> (Vec<f64>, Vec<f64>) {
    let mut targets = random_ids(VOCABULARY, ROWS, 4);
    targets[2] = f64::from(u32::MAX);
    let logits = random(dtype, ROWS * 100, 1);
    (
        rounded(dtype, &logits.iter().map(|x| x * 5.0).collect::<Vec<_>>()),
        targets,
    )
}

/// The columns `first..first + columns` of every row.
fn shard(logits: &[f64], first: usize, columns: usize) -> Vec<f64> {
    logits
        .chunks(100)
        .flat_map(|row| row[first..first + columns].to_vec())
        .collect()
}

fn log_sum_exp(row: &[f64]) -> f64 {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    max + row.iter().map(|x| (x - max).exp()).sum::<f64>().ln()
}

fn reference_loss(logits: &[f64], targets: &[f64]) -> f64 {
    let row = |(row, &target): (&[f64], &f64)| {
        if target < 1e9 {
            log_sum_exp(&row[..VOCABULARY]) - row[target as usize]
        } else {
            0.0
        }
    };
    logits.chunks(100).zip(targets).map(row).sum()
}

fn statistics(
    dtype: DType,
    logits: Vec<f64>,
    targets: &[f64],
    first_column: usize,
    columns: usize,
) -> Vec<f64> {
    let rows = targets.len();
    let memories = [
        (dtype, logits),
        (DType::U32, targets.to_vec()),
        (dtype.accumulator(), vec![9.0; 3 * rows]),
    ];
    let mut result = run(&memories, |m| {
        let (logits, targets, statistics, vocabulary) = (m[0], m[1], m[2], VOCABULARY);
        Kernel::SoftmaxStatistics(SoftmaxStatistics {
            logits,
            targets,
            statistics,
            rows,
            columns,
            first_column,
            vocabulary,
            leaf: hal::sums::leaf(VOCABULARY),
        })
    });
    result.swap_remove(2)
}

/// Log-sum-exp of every row, and 10 + loss / 4.
fn combined(dtype: DType, parts: Vec<f64>, widths: &[usize], targets: &[f64]) -> (Vec<f64>, f64) {
    let rows = targets.len();
    let memories = [
        (dtype, parts),
        (DType::U32, targets.to_vec()),
        (dtype, vec![9.0; rows]),
        (dtype, vec![10.0]),
    ];
    let mut result = run(&memories, |m| {
        let (parts, targets, log_sum_exp, loss) = (m[0], m[1], m[2], m[3]);
        Kernel::CombineSoftmax(CombineSoftmax {
            parts,
            widths: widths.to_vec(),
            rows,
            targets,
            log_sum_exp,
            loss,
            runs: 1,
            scale: 0.25,
        })
    });
    (result.swap_remove(2), result[2][0])
}

#[test]
fn loss_is_the_same_for_any_cut_of_the_vocabulary() {
    for dtype in FLOATS {
        let (logits, targets) = inputs(dtype);
        let lse: Vec<f64> = logits
            .chunks(100)
            .map(|row| log_sum_exp(&row[..VOCABULARY]))
            .collect();
        let loss = 10.0 + reference_loss(&logits, &targets) / 4.0;
        for width in [100, 50, 20, 5, 1] {
            let shards = 100 / width;
            let part = |s: usize| {
                statistics(
                    dtype,
                    shard(&logits, s * width, width),
                    &targets,
                    s * width,
                    width,
                )
            };
            let parts = (0..shards).flat_map(part).collect();
            let (found_lse, found_loss) =
                combined(dtype.accumulator(), parts, &vec![width; shards], &targets);
            assert_close(dtype.accumulator(), &found_lse, &lse, 16.0);
            assert_close(dtype.accumulator(), &[found_loss], &[loss], 16.0);
        }
    }
}

#[test]
fn statistics_without_columns_are_neutral() {
    let found = statistics(DType::F32, vec![1.0; 21], &[90.0, 5.0, 94.0], 90, 7);
    assert_eq!(found, [f64::NEG_INFINITY, 0.0, 0.0].repeat(3));
    let (lse, _) = combined(
        DType::F32,
        [f64::NEG_INFINITY, 0.0, 0.0].repeat(2),
        &[7, 3],
        &[0.0],
    );
    assert_eq!(lse, [f64::NEG_INFINITY]);
}

// Longer than a chunk, with the maximum late, and with logits whose exponentials alone would overflow.
#[test]
fn statistics_of_long_rows_do_not_overflow() {
    let mut logits = random(DType::F32, 9001, 5);
    logits
        .iter_mut()
        .enumerate()
        .for_each(|(i, x)| *x = (*x + i as f64 * 0.02 + 200.0) as f32 as f64);
    let expected = log_sum_exp(&logits);
    let memories = [
        (DType::F32, logits),
        (DType::U32, vec![8.0]),
        (DType::F32, vec![0.0; 3]),
    ];
    let result = run(&memories, |m| {
        let (logits, targets, statistics) = (m[0], m[1], m[2]);
        let (rows, columns, first_column, vocabulary) = (1, 9001, 0, 9001);
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
    let found = result[2][0] + result[2][1].ln();
    assert!(
        (found - expected).abs() < 1e-4,
        "{found} against {expected}"
    );
}

/// The gradient of `0.25 * loss`, for a gradient 2 of that, in shards of `width` columns.
fn gradient(dtype: DType, logits: &[f64], targets: &[f64], width: usize) -> Vec<f64> {
    gradient_of_runs(dtype, (logits, targets), width, &[2.0])
}

/// The same for runs of rows, whose losses have these gradients.
fn gradient_of_runs(
    dtype: DType,
    (logits, targets): (&[f64], &[f64]),
    width: usize,
    d_loss: &[f64],
) -> Vec<f64> {
    let rows = targets.len();
    let accumulator = dtype.accumulator();
    let lse: Vec<f64> = logits
        .chunks(100)
        .map(|row| log_sum_exp(&row[..VOCABULARY]))
        .collect();
    let mut whole = vec![0.0; logits.len()];
    for first_column in (0..100).step_by(width) {
        let local = (dtype, shard(logits, first_column, width));
        let targets = (DType::U32, targets.to_vec());
        let result = run(
            &[
                local,
                targets,
                (accumulator, lse.clone()),
                (accumulator, d_loss.to_vec()),
            ],
            |m| {
                let (logits, targets, log_sum_exp, d_loss) = (m[0], m[1], m[2], m[3]);
                Kernel::CrossEntropyBackward(CrossEntropyBackward {
                    logits,
                    targets,
                    log_sum_exp,
                    d_loss,
                    runs: m[3].len,
                    rows,
                    columns: width,
                    first_column,
                    vocabulary: VOCABULARY,
                    scale: 0.25,
                })
            },
        );
        for (i, value) in result[0].iter().enumerate() {
            whole[i / width * 100 + first_column + i % width] = *value;
        }
    }
    whole
}

#[test]
fn backward_is_the_derivative() {
    let (logits, targets) = inputs(DType::F64);
    let (logits, targets) = (&logits[..400], &targets[..4]);
    let expected = finite_differences(logits, |logits| 0.5 * reference_loss(logits, targets));
    let found = gradient(DType::F64, logits, targets, 100);
    assert_gradient(&found, &expected);
    assert!(
        found[200..300].iter().all(|&x| x == 0.0),
        "a row without loss"
    );
    assert!(
        found
            .chunks(100)
            .all(|row| row[VOCABULARY..].iter().all(|&x| x == 0.0)),
        "padding"
    );
}

#[test]
fn backward_agrees_in_all_types_and_cuts() {
    for dtype in FLOATS {
        let (logits, targets) = inputs(dtype);
        let expected = gradient(DType::F64, &logits, &targets, 100);
        for width in [100, 50, 5, 1] {
            assert_close(
                dtype,
                &gradient(dtype, &logits, &targets, width),
                &expected,
                16.0,
            );
        }
    }
}

#[test]
fn each_run_of_rows_has_a_gradient_of_its_own() {
    for dtype in FLOATS {
        let (logits, targets) = inputs(dtype);
        let (logits, targets) = (&logits[..600], &targets[..6]);
        let found = gradient_of_runs(dtype, (logits, targets), 50, &[2.0, -4.0, 0.5]);
        for (run, factor) in [1.0, -2.0, 0.25].into_iter().enumerate() {
            let (of_logits, of_targets) = (200 * run..200 * run + 200, 2 * run..2 * run + 2);
            let alone = gradient(dtype, &logits[of_logits.clone()], &targets[of_targets], 50);
            let expected: Vec<f64> = alone.iter().map(|x| factor * x).collect();
            assert_close(dtype, &found[of_logits], &expected, 16.0);
        }
    }
}

#[test]
fn a_target_beyond_all_columns_touches_nothing() {
    let logits = vec![0.5; 100];
    let found = gradient(DType::F32, &logits, &[4_000_000_000.0], 100);
    let padded = gradient(DType::F32, &logits, &[95.0], 100);
    assert!(
        found == padded
            && found[..VOCABULARY]
                .iter()
                .all(|&x| x == found[0] && x > 0.0)
    );
    assert_eq!(statistics(DType::F32, logits, &[95.0], 0, 100)[2], 0.0);
}

/// Statistics of the columns `node` of rows of `columns` columns, of which `vocabulary` are no padding.
fn statistics_of(
    dtype: DType,
    logits: &[f64],
    columns: usize,
    node: &Range<usize>,
    vocabulary: usize,
) -> Vec<f64> {
    let rows = logits.len() / columns;
    let targets = random_ids(vocabulary, rows, 4);
    let memories = [
        (dtype, cut(logits, columns, node)),
        (DType::U32, targets),
        (dtype.accumulator(), vec![9.0; 3 * rows]),
    ];
    let found = run(&memories, |m| {
        Kernel::SoftmaxStatistics(SoftmaxStatistics {
            logits: m[0],
            targets: m[1],
            statistics: m[2],
            rows,
            columns: node.len(),
            first_column: node.start,
            vocabulary,
            leaf: hal::sums::leaf(columns),
        })
    });
    found[2].clone()
}

#[test]
fn statistics_of_nodes_combine_to_the_bits_of_the_row() {
    for (dtype, columns) in FLOATS
        .iter()
        .flat_map(|&d| [5, 33, 100, 1000, 4500].map(|c| (d, c)))
    {
        let rows = 3;
        let logits = random(dtype, rows * columns, 1)
            .iter()
            .map(|x| 9.0 * x)
            .collect::<Vec<_>>();
        let logits = rounded(dtype, &logits);
        let targets = random_ids(columns, rows, 4);
        let of_nodes = |nodes: &[Range<usize>]| {
            let of_node = |node| statistics_of(dtype, &logits, columns, node, columns);
            let parts = nodes.iter().flat_map(of_node).collect();
            let widths: Vec<usize> = nodes.iter().map(|node| node.len()).collect();
            combined(dtype.accumulator(), parts, &widths, &targets)
        };
        let whole = of_nodes(std::slice::from_ref(&(0..columns)));
        for ranks in [2, 3, 5, 7] {
            let nodes = nodes(columns, ranks);
            assert_eq!(of_nodes(&nodes), whole, "{dtype}, {nodes:?}");
        }
    }
}

#[test]
fn padding_changes_no_bit_of_the_statistics() {
    for (dtype, vocabulary) in FLOATS.iter().flat_map(|&d| [1, 70, 1000].map(|v| (d, v))) {
        let padded = vocabulary + 2 * 64 + 3;
        let logits = random(dtype, 3 * padded, 1);
        let of = |columns: usize| {
            let logits = cut(&logits, padded, &(0..columns));
            let rows = 3;
            let memories = [
                (dtype, logits),
                (DType::U32, vec![0.0; rows]),
                (dtype.accumulator(), vec![9.0; 3 * rows]),
            ];
            let found = run(&memories, |m| {
                Kernel::SoftmaxStatistics(SoftmaxStatistics {
                    logits: m[0],
                    targets: m[1],
                    statistics: m[2],
                    rows,
                    columns,
                    first_column: 0,
                    vocabulary,
                    leaf: hal::sums::leaf(vocabulary),
                })
            });
            found[2].clone()
        };
        assert_eq!(of(padded), of(vocabulary), "{dtype}, {vocabulary}");
    }
}

#[test]
fn each_run_of_rows_has_a_loss_of_its_own() {
    let (rows, runs) = (12, 4);
    let parts = random(DType::F32, 3 * rows, 1)
        .iter()
        .map(|x| x.abs() + 0.1)
        .collect::<Vec<_>>();
    let parts = rounded(DType::F32, &parts);
    let mut targets = vec![0.0; rows];
    targets[4] = f64::from(u32::MAX);
    let losses = |parts: &[f64], targets: &[f64], runs: usize| {
        let rows = targets.len();
        let memories = [
            (DType::F32, parts.to_vec()),
            (DType::U32, targets.to_vec()),
            (DType::F32, vec![9.0; rows]),
            (DType::F32, vec![0.5; runs]),
        ];
        let found = run(&memories, |m| {
            Kernel::CombineSoftmax(CombineSoftmax {
                parts: m[0],
                widths: vec![50],
                rows,
                targets: m[1],
                log_sum_exp: m[2],
                loss: m[3],
                runs,
                scale: 0.25,
            })
        });
        found[3].clone()
    };
    let apart = |run: usize| {
        let rows = run * 3..(run + 1) * 3;
        losses(&parts[3 * rows.start..3 * rows.end], &targets[rows], 1)
    };
    let expected: Vec<f64> = (0..runs).flat_map(apart).collect();
    assert_eq!(losses(&parts, &targets, runs), expected);
    assert!(expected.windows(2).all(|pair| pair[0] != pair[1]));
}
