//! Rows cut at the borders of leaves: nodes computed apart and combined have the bits of the full row, with both widths of
//! warps. And sums of squares have the bits of the reference vendor, however the elements are cut.

use crate::{
    machine::{run, run_reference},
    memory::{FLOATS, Memory, random},
};
use hal::{
    DType, Kernel, RawSlice,
    kernel::{
        CombineMoments, CombineSoftmax, ExactSquares, ExactTotal, Largest, Moments, NormKind,
        NormShape, NormalizeSums, RowSum, SoftmaxStatistics,
    },
    sums::{self, Tree},
};
use std::ops::Range;

const ROWS: usize = 3;

/// Less than a leaf, no multiple of one, less and more than a warp reads at once, and more than 32 times that.
const WIDTHS: [usize; 7] = [1, 13, 100, 512, 1000, 2345, 9001];

/// The columns of all nodes that ranks hold when they share the leaves of a row.
fn nodes(columns: usize, ranks: usize) -> Vec<Range<usize>> {
    let leaf = sums::leaf(columns);
    let leaves = sums::leaves(columns, leaf);
    let of_rank = |rank| leaves * rank / ranks..leaves * (rank + 1) / ranks;
    (0..ranks)
        .flat_map(|rank| sums::nodes(of_rank(rank)))
        .map(|node| node.start * leaf..columns.min(node.end * leaf))
        .collect()
}

/// Type, width of warps, columns, and the nodes of several ranks.
fn each(test: impl Fn(DType, u32, usize, &[Range<usize>])) {
    for (dtype, _) in FLOATS {
        for (warp, columns) in [32, 64].iter().flat_map(|&w| WIDTHS.map(|c| (w, c))) {
            for ranks in [2, 3, 7] {
                test(dtype, warp, columns, &nodes(columns, ranks));
            }
        }
    }
}

fn cut(values: &[f64], columns: usize, node: &Range<usize>) -> Vec<f64> {
    let rows = values.chunks(columns);
    rows.flat_map(|row| row[node.clone()].to_vec()).collect()
}

fn rounded(dtype: DType, values: &[f64]) -> Vec<f64> {
    Memory::new(dtype, values, 0).values()
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// The sum of nodes, each of them rounded to `dtype`.
fn added(dtype: DType, nodes: impl Iterator<Item = (usize, f64)>) -> f64 {
    let mut tree = Tree::default();
    let add = |left: f64, right: f64| rounded(dtype, &[left + right])[0];
    nodes.for_each(|(columns, value)| tree.push(sums::level(columns), value, add));
    tree.sum(add).unwrap()
}

#[test]
fn a_row_is_added_by_the_tree_over_its_columns() {
    for (dtype, warp) in [DType::F64, DType::F32]
        .iter()
        .flat_map(|&d| [32, 64].map(|w| (d, w)))
    {
        for columns in WIDTHS {
            // The last column is a node of its own in odd rows: -0 does not survive the addition of 0.
            let mut x = rounded(dtype, &random(ROWS * columns, 1));
            x[columns - 1] = -0.0;
            let memories = [
                Memory::new(dtype, &x, 0),
                Memory::new(dtype, &[9.0; ROWS], 0),
            ];
            let found = run(warp, &memories, |m| {
                let (x, out) = (m[0], m[1]);
                Kernel::RowSum(RowSum {
                    x,
                    out,
                    rows: ROWS,
                    columns,
                })
            });
            let Some(found) = found else { return };
            let expected: Vec<f64> = x
                .chunks(columns)
                .map(|row| added(dtype, row.iter().map(|&x| (1, x))))
                .collect();
            assert_eq!(
                bits(&found[1]),
                bits(&expected),
                "{dtype}, {warp}, {columns} columns"
            );
        }
    }
}

fn shape(kind: NormKind, columns: usize, global_columns: usize) -> NormShape {
    NormShape {
        kind,
        rows: ROWS,
        columns,
        global_columns,
        epsilon: 1e-5,
    }
}

fn moments(dtype: DType, warp: u32, shape: NormShape, x: &[f64]) -> Option<Vec<f64>> {
    let out = Memory::new(dtype.accumulator(), &[9.0; 2 * ROWS], 0);
    let found = run(warp, &[Memory::new(dtype, x, 0), out], |m| {
        let (x, moments) = (m[0], m[1]);
        Kernel::Moments(Moments { shape, x, moments })
    });
    found.map(|found| found[1].clone())
}

#[test]
fn moments_of_nodes_combine_to_those_of_the_row() {
    each(|dtype, warp, columns, nodes| {
        for kind in NormKind::ALL {
            let x: Vec<f64> = random(ROWS * columns, 1).iter().map(|x| x + 3.0).collect();
            let Some(whole) = moments(dtype, warp, shape(kind, columns, columns), &x) else {
                return;
            };
            let of_node = |node: &Range<usize>| {
                moments(
                    dtype,
                    warp,
                    shape(kind, node.len(), columns),
                    &cut(&x, columns, node),
                )
                .unwrap()
            };
            let parts: Vec<f64> = nodes.iter().flat_map(of_node).collect();
            let accumulator = dtype.accumulator();
            let memories =
                [&parts[..], &[9.0; 2 * ROWS]].map(|values| Memory::new(accumulator, values, 0));
            let found = run(warp, &memories, |m| {
                Kernel::CombineMoments(CombineMoments {
                    shape: shape(kind, 0, columns),
                    parts: m[0],
                    widths: nodes.iter().map(|node| node.len()).collect(),
                    moments: m[1],
                })
            });
            assert_eq!(
                bits(&found.unwrap()[1]),
                bits(&whole),
                "{dtype}, {warp}, {kind:?}, {nodes:?}"
            );
        }
    });
}

/// Row sums, and the gradients of gain and bias.
fn normalize_sums(
    dtype: DType,
    warp: u32,
    shape: NormShape,
    inputs: [Vec<f64>; 4],
) -> Option<[Vec<f64>; 3]> {
    let accumulator = dtype.accumulator();
    let types = [dtype, accumulator, dtype, dtype];
    let inputs = inputs
        .iter()
        .zip(types)
        .map(|(values, dtype)| Memory::new(dtype, values, 0));
    let outputs = [2 * ROWS, shape.columns, shape.columns]
        .map(|len| Memory::new(accumulator, &vec![9.0; len], 0));
    let memories: Vec<Memory> = inputs.chain(outputs).collect();
    let found = run(warp, &memories, |m| {
        Kernel::NormalizeSums(NormalizeSums {
            shape,
            x: m[0],
            moments: m[1],
            gain: m[2],
            d_out: m[3],
            sums: m[4],
            d_gain: m[5],
            d_bias: Some(m[6]),
            beta: 0.0,
        })
    });
    found.map(|found| [4, 5, 6].map(|index| found[index].clone()))
}

#[test]
fn sums_of_a_norms_backward_pass_add_to_those_of_the_row() {
    each(|dtype, warp, columns, nodes| {
        let [x, d_out] = [1, 3].map(|seed| random(ROWS * columns, seed));
        let gain = random(columns, 2);
        let of_row = shape(NormKind::Layer, columns, columns);
        let Some(row_moments) = moments(dtype, warp, of_row, &x) else {
            return;
        };
        let of_node = |node: &Range<usize>| {
            let [x, d_out] = [&x, &d_out].map(|all| cut(all, columns, node));
            let inputs = [x, row_moments.clone(), gain[node.clone()].to_vec(), d_out];
            normalize_sums(
                dtype,
                warp,
                shape(NormKind::Layer, node.len(), columns),
                inputs,
            )
            .unwrap()
        };
        let [whole, d_gain, d_bias] = of_node(&(0..columns));
        let parts: Vec<_> = nodes.iter().map(of_node).collect();
        for (index, &whole) in whole.iter().enumerate() {
            let of_row = nodes
                .iter()
                .zip(&parts)
                .map(|(node, [sums, ..])| (node.len(), sums[index]));
            let found = added(dtype.accumulator(), of_row);
            assert_eq!(
                found.to_bits(),
                whole.to_bits(),
                "{dtype}, {warp}, {nodes:?}"
            );
        }
        for (node, [_, gain, bias]) in nodes.iter().zip(&parts) {
            assert_eq!(
                bits(gain),
                bits(&d_gain[node.clone()]),
                "{dtype}, {warp}, {node:?}"
            );
            assert_eq!(
                bits(bias),
                bits(&d_bias[node.clone()]),
                "{dtype}, {warp}, {node:?}"
            );
        }
    });
}

fn statistics(dtype: DType, warp: u32, logits: &[f64], leaf: usize) -> Option<Vec<f64>> {
    let columns = logits.len() / ROWS;
    let memories = [
        Memory::new(dtype, logits, 0),
        Memory::new(DType::U32, &[0.0; ROWS], 0),
        Memory::new(dtype.accumulator(), &[9.0; 3 * ROWS], 0),
    ];
    let found = run(warp, &memories, |m| {
        Kernel::SoftmaxStatistics(SoftmaxStatistics {
            logits: m[0],
            targets: m[1],
            statistics: m[2],
            rows: ROWS,
            columns,
            first_column: 0,
            vocabulary: columns,
            leaf,
        })
    });
    found.map(|found| found[2].clone())
}

fn combined(dtype: DType, warp: u32, parts: &[f64], widths: &[usize]) -> [Vec<f64>; 2] {
    let memories = [
        Memory::new(dtype, parts, 0),
        Memory::new(DType::U32, &[0.0; ROWS], 0),
        Memory::new(dtype, &[9.0; ROWS], 0),
        Memory::new(dtype, &[0.0; ROWS], 0),
    ];
    let found = run(warp, &memories, |m| {
        Kernel::CombineSoftmax(CombineSoftmax {
            parts: m[0],
            widths: widths.to_vec(),
            rows: ROWS,
            targets: m[1],
            log_sum_exp: m[2],
            loss: m[3],
            runs: ROWS,
            scale: 1.0,
        })
    });
    let found = found.unwrap();
    [2, 3].map(|index| found[index].clone())
}

#[test]
fn softmax_statistics_of_nodes_combine_to_those_of_the_row() {
    each(|dtype, warp, columns, nodes| {
        let logits: Vec<f64> = random(ROWS * columns, 1).iter().map(|x| 5.0 * x).collect();
        let leaf = sums::leaf(columns);
        let Some(whole) = statistics(dtype, warp, &logits, leaf) else {
            return;
        };
        let of_node = |node: &Range<usize>| {
            let mut part = statistics(dtype, warp, &cut(&logits, columns, node), leaf).unwrap();
            // The target is column 0 of the row.
            let targets = part.iter_mut().skip(2).step_by(3);
            targets.for_each(|target| *target = if node.start == 0 { *target } else { 0.0 });
            part
        };
        let parts: Vec<f64> = nodes.iter().flat_map(of_node).collect();
        let widths: Vec<usize> = nodes.iter().map(|node| node.len()).collect();
        let accumulator = dtype.accumulator();
        let found = combined(accumulator, warp, &parts, &widths);
        let expected = combined(accumulator, warp, &whole, &[columns]);
        assert_eq!(
            found.map(|x| bits(&x)),
            expected.map(|x| bits(&x)),
            "{dtype}, {warp}, {nodes:?}"
        );
    });
}

/// The sum of the squares of all slices, in launches of two slices.
fn squares(
    slices: &[Memory],
    run: impl Fn(&[Memory], &dyn Fn(&[RawSlice]) -> Kernel) -> Option<Vec<f64>>,
) -> Option<f64> {
    let number = |values: &[f64]| Memory::new(DType::F64, values, 0);
    let (mut largest, mut sums) = (vec![0.0], vec![0.0; 3]);
    for launch in slices.chunks(2) {
        let memories = [launch, &[number(&largest)]].concat();
        largest = run(&memories, &|m| {
            let (&out, slices) = m.split_last().unwrap();
            let slices = slices.to_vec();
            Kernel::Largest(Largest { slices, out })
        })?;
    }
    for launch in slices.chunks(2) {
        let memories = [launch, &[number(&largest), number(&sums)]].concat();
        sums = run(&memories, &|m| {
            let (slices, ends) = m.split_at(m.len() - 2);
            let (slices, largest, sums) = (slices.to_vec(), ends[0], ends[1]);
            Kernel::ExactSquares(ExactSquares {
                slices,
                largest,
                sums,
            })
        })?;
    }
    let total = run(&[number(&largest), number(&sums), number(&[9.0])], &|m| {
        let (largest, sums, out) = (m[0], m[1], m[2]);
        Kernel::ExactTotal(ExactTotal { largest, sums, out })
    });
    total.map(|total| total[0])
}

#[test]
fn squares_have_the_bits_of_the_reference_however_they_are_cut() {
    let by_reference = |memories: &[Memory], make: &dyn Fn(&[RawSlice]) -> Kernel| {
        let copies: Vec<Memory> = memories.iter().map(Memory::copy).collect();
        run_reference(&make(&copies.iter().map(Memory::slice).collect::<Vec<_>>()));
        Some(copies.last().unwrap().values())
    };
    for (dtype, _) in FLOATS {
        // Small and large, equal ones, whose sum needs all limbs, one that is no number, and one that is infinite.
        let spread: Vec<f64> = random(70_000, 4)
            .iter()
            .map(|x| x * (8.0 * x).exp2())
            .collect();
        let equal = vec![0.75; 70_000];
        let [mut no_number, mut infinite] = [spread.clone(), spread.clone()];
        (no_number[40_000], infinite[7]) = (f64::NAN, f64::INFINITY);
        for values in [spread, equal, no_number, infinite, vec![0.0; 5]] {
            let whole = [Memory::new(dtype, &values, 0)];
            let expected = squares(&whole, by_reference).unwrap();
            let pieces: Vec<Memory> = values
                .chunks(9_999)
                .map(|piece| Memory::new(dtype, piece, 1))
                .collect();
            for (warp, slices) in [(32, &whole[..]), (64, &whole), (32, &pieces), (64, &pieces)] {
                let on_device = |memories: &[Memory], make: &dyn Fn(&[RawSlice]) -> Kernel| {
                    run(warp, memories, make).map(|found| found.last().unwrap().clone())
                };
                let Some(found) = squares(slices, on_device) else {
                    return;
                };
                let same =
                    found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
                assert!(
                    same,
                    "{dtype}, {warp}, {} slices: {found:e}, not {expected:e}",
                    slices.len()
                );
            }
        }
    }
}
