//! GEMMs in the order of `hal::sums`: their numbers, and the bits of an element wherever and with whatever it is computed.

use crate::{
    machine::{run_launch, traits},
    memory::{FLOATS, Memory, random},
};
use fascicle_gpu::lower::{self, DeviceTraits};
use hal::{
    Batch, DType, Epilogue, Gemm, Matrix,
    sums::{self, Tree},
};
use std::ops::Range;

/// Factors, and how they are stored and multiplied.
#[derive(Clone)]
struct Problem {
    dtype: DType,
    out: DType,
    sizes: [usize; 3],
    leaf: usize,
    transposed: [bool; 2],
    /// Elements behind each stored row, and before the first.
    gap: usize,
    scales: [f64; 2],
    batch: usize,
    warp: u32,
    multiprocessors: u32,
}

const LAYOUTS: [[bool; 2]; 4] = [[false, false], [false, true], [true, false], [true, true]];

impl Problem {
    fn new(dtype: DType, sizes: [usize; 3], leaf: usize, warp: u32) -> Problem {
        Problem {
            dtype,
            out: dtype.accumulator(),
            sizes,
            leaf,
            transposed: [false; 2],
            gap: 0,
            scales: [1.0, 0.0],
            batch: 1,
            warp,
            multiprocessors: 108,
        }
    }

    /// The element of a factor, by row and column as multiplied.
    fn element(&self, factor: usize, batch: usize, row: usize, column: usize) -> f64 {
        let key = hal::random::Key::new(factor as u64 + 1, "gemm", batch as u64);
        key.normal((row * 10_000 + column) as u64)
    }

    /// The stored elements of a part of a factor, and the elements from one stored row to the next.
    fn stored(
        &self,
        factor: usize,
        rows: &Range<usize>,
        columns: &Range<usize>,
    ) -> (Vec<f64>, usize) {
        let (outer, inner) = match self.transposed[factor] {
            true => (columns, rows),
            false => (rows, columns),
        };
        let leading = inner.len() + self.gap;
        let mut values = Vec::new();
        for batch in 0..self.batch {
            for i in outer.clone() {
                let at = |j| match self.transposed[factor] {
                    true => self.element(factor, batch, j, i),
                    false => self.element(factor, batch, i, j),
                };
                values.extend(inner.clone().map(at));
                values.extend(vec![f64::NAN; self.gap]);
            }
        }
        (values, leading)
    }

    /// Computes a part of C from a part of the terms; `None` where kernels cannot run.
    fn part(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        terms: Range<usize>,
    ) -> Option<Vec<f64>> {
        let (a, a_leading) = self.stored(0, &rows, &terms);
        let (b, b_leading) = self.stored(1, &terms, &columns);
        let strides = [a.len(), b.len()].map(|len| len / self.batch);
        let [m, n, k] = [rows.len(), columns.len(), terms.len()];
        let [a, b] = [a, b].map(|values| Memory::new(self.dtype, &values, self.gap));
        let c_leading = n + self.gap;
        let old = match self.scales[1] {
            0.0 => vec![f64::NAN; self.batch * m * c_leading],
            _ => random(self.batch * m * c_leading, 3),
        };
        let c = Memory::new(self.out, &old, self.gap);
        let matrix = |memory: &Memory, leading, transposed| Matrix {
            data: memory.slice(),
            leading,
            transposed,
        };
        let gemm = Gemm {
            m,
            n,
            k,
            leaf: self.leaf,
            a: matrix(&a, a_leading, self.transposed[0]),
            b: matrix(&b, b_leading, self.transposed[1]),
            c: matrix(&c, c_leading, false),
            alpha: self.scales[0],
            beta: self.scales[1],
            batch: Batch {
                count: self.batch,
                strides: [strides[0], strides[1], m * c_leading],
            },
            epilogue: Epilogue::None,
        };
        let traits = DeviceTraits {
            multiprocessors: self.multiprocessors,
            ..traits(self.warp)
        };
        let bytes = lower::gemm_workspace(&gemm, &traits);
        let scratch = Memory::new(DType::F64, &vec![f64::NAN; bytes.div_ceil(8)], 0);
        let launch = lower::gemm(&gemm, &traits, scratch.slice().addr).unwrap();
        if !run_launch(&launch.expect("C has elements"), self.warp) {
            return None;
        }
        let numbers = c.numbers();
        let found = numbers[self.gap..].chunks(c_leading).take(self.batch * m);
        Some(found.flat_map(|row| row[..n].to_vec()).collect())
    }

    fn full(&self) -> Option<Vec<f64>> {
        let [m, n, k] = self.sizes;
        self.part(0..m, 0..n, 0..k)
    }
}

/// `values` as numbers of that type.
fn rounded(dtype: DType, values: Vec<f64>) -> Vec<f64> {
    let len = values.len();
    Memory::new(dtype, &values, 0).numbers()[..len].to_vec()
}

fn bits(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

#[test]
fn gemms_of_all_layouts_types_and_batches_agree() {
    for ((dtype, spacing), warp) in FLOATS.iter().flat_map(|f| [32, 64].map(|w| (*f, w))) {
        for (sizes, batch, gap) in [
            ([5, 70, 33], 2, 1),
            ([64, 64, 128], 1, 0),
            ([67, 3, 0], 1, 0),
        ] {
            for (transposed, out) in LAYOUTS
                .into_iter()
                .zip([dtype, dtype.accumulator()].repeat(2))
            {
                let problem = Problem {
                    transposed,
                    out,
                    batch,
                    gap,
                    scales: [0.5, -2.0],
                    ..Problem::new(dtype, sizes, sums::leaf(sizes[2]), warp)
                };
                let Some(found) = problem.full() else { return };
                let [m, n, k] = sizes;
                let row_of = |factor, batch, i: usize| -> Vec<f64> {
                    let term = |p| match factor {
                        0 => problem.element(0, batch, i, p),
                        _ => problem.element(1, batch, p, i),
                    };
                    rounded(dtype, (0..k).map(term).collect())
                };
                let old = rounded(out, random(batch * m * (n + gap), 3));
                for (index, found) in found.into_iter().enumerate() {
                    let (at, i, j) = (index / n / m, index / n % m, index % n);
                    let sum: f64 = row_of(0, at, i)
                        .iter()
                        .zip(row_of(1, at, j))
                        .map(|(a, b)| a * b)
                        .sum();
                    let expected = 0.5 * sum - 2.0 * old[(at * m + i) * (n + gap) + j];
                    let accumulated = spacing.min(1.2e-7) * (k as f64 + 4.0) * 4.0;
                    let tolerance = if out == dtype {
                        spacing.max(accumulated)
                    } else {
                        accumulated
                    };
                    assert!(
                        (found - expected).abs() <= tolerance * expected.abs().max(8.0),
                        "{dtype}, {out}, warp {warp}, {sizes:?}, {transposed:?}: {found}, not {expected} at {index}"
                    );
                }
            }
        }
    }
}

#[test]
fn an_element_has_the_same_bits_in_every_part_and_layout() {
    for ((dtype, _), warp) in FLOATS.iter().flat_map(|f| [32, 64].map(|w| (*f, w))) {
        let sizes = [70, 83, 75];
        let problem = Problem::new(dtype, sizes, 16, warp);
        let Some(expected) = problem.full() else {
            return;
        };
        let expected = bits(&expected);
        for transposed in LAYOUTS {
            for (rows, columns, gap) in [
                (0..70, 0..83, 3),
                (0..1, 0..83, 0),
                (5..70, 50..51, 1),
                (2..5, 3..80, 0),
                (3..67, 19..83, 8),
            ] {
                let problem = Problem {
                    transposed,
                    gap,
                    ..problem.clone()
                };
                let found = problem.part(rows.clone(), columns.clone(), 0..75).unwrap();
                let part = rows.flat_map(|row| &expected[row * 83..][columns.clone()]);
                assert!(
                    part.eq(&bits(&found)),
                    "{dtype}, {warp}, {transposed:?} {columns:?}"
                );
            }
        }
    }
}

/// Lengths of leaves, among them the shortest, the longest and some of rows that are no power of 2; and numbers of terms that
/// end within a leaf, between leaves, and within a stage. The last has nodes that wait in memory.
const LEAVES_AND_TERMS: [(usize, usize); 12] = [
    (1, 7),
    (2, 37),
    (4, 64),
    (6, 95),
    (16, 16),
    (16, 17),
    (32, 250),
    (40, 200),
    (64, 448),
    (64, 531),
    (75, 300),
    (8, 531),
];

#[test]
fn complete_nodes_add_up_to_the_bits_of_the_full_sum() {
    for ((dtype, _), warp) in FLOATS.iter().flat_map(|f| [32, 64].map(|w| (*f, w))) {
        let accumulator = dtype.accumulator();
        let add = |left: Vec<f64>, right: Vec<f64>| {
            let sums = left.iter().zip(&right).map(|(left, right)| left + right);
            rounded(accumulator, sums.collect())
        };
        for (index, (leaf, k)) in LEAVES_AND_TERMS.into_iter().enumerate() {
            let problem = Problem {
                transposed: LAYOUTS[index % 4],
                ..Problem::new(dtype, [9, 70, k], leaf, warp)
            };
            let Some(whole) = problem.full() else { return };
            // The nodes of single ranks, of those that share the leaves, and of every leaf alone.
            for ranks in [1, 2, 3, 5, sums::leaves(k, leaf)] {
                let leaves = sums::leaves(k, leaf);
                let of_rank = |rank| leaves * rank / ranks..leaves * (rank + 1) / ranks;
                let mut tree = Tree::default();
                for node in (0..ranks).flat_map(|rank| sums::nodes(of_rank(rank))) {
                    let terms = node.start * leaf..k.min(node.end * leaf);
                    let sums = problem.part(0..9, 0..70, terms).unwrap();
                    tree.push(node.len().ilog2(), sums, add);
                }
                let found = tree.sum(add).unwrap();
                assert_eq!(
                    bits(&found),
                    bits(&whole),
                    "{dtype}, {warp}, {leaf} {k}, {ranks} ranks"
                );
            }
            let out = Problem {
                out: dtype,
                ..problem.clone()
            };
            let found = out.full().unwrap();
            assert_eq!(
                bits(&found),
                bits(&rounded(dtype, whole)),
                "{dtype}, {leaf} {k}"
            );
        }
    }
}

/// The chain of fused multiply-adds and the tree, written out.
fn chains(problem: &Problem) -> Vec<f64> {
    let [m, n, k] = problem.sizes;
    let fused = |a: f64, b: f64, sum: f64| match problem.dtype {
        DType::F64 => a.mul_add(b, sum),
        _ => (a as f32).mul_add(b as f32, sum as f32).into(),
    };
    let add = |left: f64, right: f64| rounded(problem.dtype, vec![left + right])[0];
    let element = |i: usize, j: usize| {
        let a = rounded(
            problem.dtype,
            (0..k).map(|p| problem.element(0, 0, i, p)).collect(),
        );
        let b = rounded(
            problem.dtype,
            (0..k).map(|p| problem.element(1, 0, p, j)).collect(),
        );
        let mut tree = Tree::default();
        for leaf in 0..sums::leaves(k, problem.leaf) {
            let terms = leaf * problem.leaf..k.min((leaf + 1) * problem.leaf);
            tree.push(0, terms.fold(0.0, |sum, p| fused(a[p], b[p], sum)), add);
        }
        tree.sum(add).unwrap()
    };
    let all = (0..m).flat_map(|i| (0..n).map(move |j| (i, j)));
    all.map(|(i, j)| element(i, j)).collect()
}

#[test]
fn without_matrix_units_a_leaf_is_a_chain_and_the_scales_come_last() {
    for (dtype, warp) in [DType::F64, DType::F32]
        .iter()
        .flat_map(|&d| [32, 64].map(|w| (d, w)))
    {
        for (leaf, k) in LEAVES_AND_TERMS {
            let problem = Problem::new(dtype, [5, 66, k], leaf, warp);
            let Some(found) = problem.full() else { return };
            let sums = chains(&problem);
            assert_eq!(bits(&found), bits(&sums), "{dtype}, {leaf} {k}");
            let scaled = Problem {
                scales: [1.0, 1.0],
                ..problem.clone()
            };
            let old = rounded(dtype, random(5 * 66, 3));
            let expected = sums.iter().zip(old).map(|(sum, old)| old + sum).collect();
            let found = scaled.full().unwrap();
            assert_eq!(
                bits(&found),
                bits(&rounded(dtype, expected)),
                "{dtype}, {leaf} {k}"
            );
        }
    }
}

#[test]
fn the_number_of_blocks_changes_no_bit() {
    for (dtype, _) in FLOATS {
        let problem = Problem::new(dtype, [130, 200, 300], 8, 32);
        let Some(expected) = problem.full() else {
            return;
        };
        // Two blocks, which compute six tiles each with the same memory for nodes.
        let few = Problem {
            multiprocessors: 1,
            ..problem
        };
        assert_eq!(bits(&few.full().unwrap()), bits(&expected), "{dtype}");
    }
}
