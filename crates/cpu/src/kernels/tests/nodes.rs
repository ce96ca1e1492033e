//! Rows cut at the borders of leaves: nodes computed apart and combined have the bits of the full row.

use super::*;
use hal::{
    kernel::{CombineMoments, Moments, NormKind, NormShape, NormalizeSums, RowSum},
    sums::{self, Tree},
};
use std::ops::Range;

const ROWS: usize = 3;

/// Less than a leaf, no multiple of one, as long as two nodes of the kernels, and longer.
const WIDTHS: [usize; 6] = [1, 13, 100, 512, 1000, 2345];

/// The columns of all nodes that ranks hold when they share the leaves of a row.
pub(super) fn nodes(columns: usize, ranks: usize) -> Vec<Range<usize>> {
    let leaf = sums::leaf(columns);
    let leaves = sums::leaves(columns, leaf);
    let of_rank = |rank| leaves * rank / ranks..leaves * (rank + 1) / ranks;
    (0..ranks)
        .flat_map(|rank| sums::nodes(of_rank(rank)))
        .map(|node| node.start * leaf..columns.min(node.end * leaf))
        .collect()
}

pub(super) fn cut(values: &[f64], columns: usize, node: &Range<usize>) -> Vec<f64> {
    let rows = values.chunks(columns);
    rows.flat_map(|row| row[node.clone()].to_vec()).collect()
}

fn each(test: impl Fn(DType, usize, &[Range<usize>])) {
    for (dtype, columns) in FLOATS.iter().flat_map(|&d| WIDTHS.map(|c| (d, c))) {
        for ranks in [1, 2, 3, 5, 7] {
            test(dtype, columns, &nodes(columns, ranks));
        }
    }
}

/// The sum of nodes, each of them rounded to `dtype`.
fn added(dtype: DType, nodes: &[(usize, f64)]) -> f64 {
    let mut tree = Tree::default();
    let add = |left: f64, right: f64| rounded(dtype, &[left + right])[0];
    for &(columns, value) in nodes {
        tree.push(sums::level(columns), value, add);
    }
    tree.sum(add).unwrap()
}

fn row_sums(dtype: DType, x: Vec<f64>, columns: usize) -> Vec<f64> {
    let rows = x.len() / columns;
    let found = run(&[(dtype, x), (dtype, vec![9.0; rows])], |m| {
        let (x, out) = (m[0], m[1]);
        Kernel::RowSum(RowSum {
            x,
            out,
            rows,
            columns,
        })
    });
    found[1].clone()
}

#[test]
fn a_row_is_added_by_the_tree_over_its_columns() {
    for (dtype, columns) in [DType::F64, DType::F32]
        .iter()
        .flat_map(|&d| WIDTHS.map(|c| (d, c)))
    {
        let x = random(dtype, ROWS * columns, 1);
        let by_tree = |row: &[f64]| added(dtype, &row.iter().map(|&x| (1, x)).collect::<Vec<_>>());
        let expected: Vec<f64> = x.chunks(columns).map(by_tree).collect();
        assert_eq!(
            row_sums(dtype, x, columns),
            expected,
            "{dtype}, {columns} columns"
        );
    }
}

#[test]
fn row_sums_of_nodes_add_to_those_of_the_row() {
    each(|dtype, columns, nodes| {
        // Sums leave the kernel in the type of x; only sums of accumulators lose nothing on the way.
        if dtype != dtype.accumulator() {
            return;
        }
        let x = random(dtype, ROWS * columns, 1);
        let parts: Vec<_> = nodes
            .iter()
            .map(|node| row_sums(dtype, cut(&x, columns, node), node.len()))
            .collect();
        for (row, whole) in row_sums(dtype, x, columns).into_iter().enumerate() {
            let of_row = nodes
                .iter()
                .zip(&parts)
                .map(|(node, part)| (node.len(), part[row]));
            assert_eq!(
                added(dtype, &of_row.collect::<Vec<_>>()),
                whole,
                "{dtype}, {nodes:?}"
            );
        }
    });
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

fn moments(dtype: DType, shape: NormShape, x: Vec<f64>) -> Vec<f64> {
    let memories = [(dtype, x), (dtype.accumulator(), vec![9.0; 2 * ROWS])];
    let found = run(&memories, |m| {
        Kernel::Moments(Moments {
            shape,
            x: m[0],
            moments: m[1],
        })
    });
    found[1].clone()
}

#[test]
fn moments_of_nodes_combine_to_those_of_the_row() {
    each(|dtype, columns, nodes| {
        for kind in NormKind::ALL {
            let x = random(dtype, ROWS * columns, 1);
            let of_node = |node: &Range<usize>| {
                moments(
                    dtype,
                    shape(kind, node.len(), columns),
                    cut(&x, columns, node),
                )
            };
            let parts = nodes.iter().flat_map(of_node).collect();
            let accumulator = dtype.accumulator();
            let memories = [(accumulator, parts), (accumulator, vec![9.0; 2 * ROWS])];
            let found = run(&memories, |m| {
                Kernel::CombineMoments(CombineMoments {
                    shape: shape(kind, 0, columns),
                    parts: m[0],
                    widths: nodes.iter().map(|node| node.len()).collect(),
                    moments: m[1],
                })
            });
            let whole = moments(dtype, shape(kind, columns, columns), x);
            assert_eq!(found[1], whole, "{dtype}, {kind:?}, {nodes:?}");
        }
    });
}

/// Row sums, and the gradients of gain and bias.
fn normalize_sums(dtype: DType, shape: NormShape, inputs: [Vec<f64>; 4]) -> [Vec<f64>; 3] {
    let [x, moments, gain, d_out] = inputs;
    let accumulator = dtype.accumulator();
    let zeros = vec![0.0; shape.columns];
    let memories = [
        (dtype, x),
        (accumulator, moments),
        (dtype, gain),
        (dtype, d_out),
        (accumulator, vec![9.0; 2 * ROWS]),
        (accumulator, zeros.clone()),
        (accumulator, zeros),
    ];
    let found = run(&memories, |m| {
        let (x, moments, gain, d_out) = (m[0], m[1], m[2], m[3]);
        let (sums, d_gain, d_bias) = (m[4], m[5], Some(m[6]));
        Kernel::NormalizeSums(NormalizeSums {
            shape,
            x,
            moments,
            gain,
            d_out,
            sums,
            d_gain,
            d_bias,
            beta: 0.0,
        })
    });
    [4, 5, 6].map(|index| found[index].clone())
}

#[test]
fn sums_of_a_norms_backward_pass_add_to_those_of_the_row() {
    each(|dtype, columns, nodes| {
        let kind = NormKind::Layer;
        let (x, d_out) = (
            random(dtype, ROWS * columns, 1),
            random(dtype, ROWS * columns, 3),
        );
        let gain = random(dtype, columns, 2);
        let row_moments = moments(dtype, shape(kind, columns, columns), x.clone());
        let of_node = |node: &Range<usize>| {
            let inputs = [
                cut(&x, columns, node),
                row_moments.clone(),
                cut(&gain, columns, node),
                cut(&d_out, columns, node),
            ];
            normalize_sums(dtype, shape(kind, node.len(), columns), inputs)
        };
        let [whole, d_gain, d_bias] = of_node(&(0..columns));
        let parts: Vec<_> = nodes.iter().map(of_node).collect();
        for (index, &whole) in whole.iter().enumerate() {
            let of_row = nodes
                .iter()
                .zip(&parts)
                .map(|(node, [sums, ..])| (node.len(), sums[index]));
            let found = added(dtype.accumulator(), &of_row.collect::<Vec<_>>());
            assert_eq!(found, whole, "{dtype}, {nodes:?}");
        }
        for (node, [_, gain, bias]) in nodes.iter().zip(&parts) {
            assert_eq!(
                (&gain[..], &bias[..]),
                (&d_gain[node.clone()], &d_bias[node.clone()])
            );
        }
    });
}

// The last column is a node of its own in odd rows, and its -0 would not survive the addition of a missing neighbour.
#[test]
fn sums_of_a_norms_backward_pass_are_added_by_the_tree_over_columns() {
    for (dtype, columns) in [DType::F64, DType::F32]
        .iter()
        .flat_map(|&d| WIDTHS.map(|c| (d, c)))
    {
        let mut d_out = random(dtype, ROWS * columns, 3);
        d_out
            .chunks_mut(columns)
            .for_each(|row| row[columns - 1] = -0.0);
        let gain: Vec<f64> = random(dtype, columns, 2).iter().map(|x| x.abs()).collect();
        let expected = d_out.chunks(columns).map(|row| {
            let g = row.iter().zip(&gain).map(|(d, gain)| d * gain);
            let terms = rounded(dtype, &g.collect::<Vec<_>>());
            added(
                dtype,
                &terms.into_iter().map(|g| (1, g)).collect::<Vec<_>>(),
            )
        });
        let expected: Vec<u64> = expected.map(f64::to_bits).collect();
        let x = random(dtype, ROWS * columns, 1);
        let inputs = [x, vec![1.0; 2 * ROWS], gain, d_out.clone()];
        let shape = shape(NormKind::Layer, columns, columns);
        let [sums, ..] = normalize_sums(dtype, shape, inputs);
        let found: Vec<u64> = sums.iter().step_by(2).map(|g| g.to_bits()).collect();
        assert_eq!(found, expected, "{dtype}, {columns} columns");
    }
}
