//! The bits of sums depend on k and the length of a leaf, and on nothing else.

use super::*;
use hal::sums::{self, Tree};
use std::ops::Range;

/// Factors as a format reads them, and how they are multiplied.
#[derive(Clone)]
struct Problem<F: Format> {
    format: F,
    sizes: [usize; 3],
    leaf: usize,
    transposed: [bool; 2],
    threads: usize,
    scales: [f64; 2],
}

impl<F: Format> Problem<F> {
    fn new(format: F, sizes: [usize; 3], leaf: usize) -> Self {
        Problem {
            format,
            sizes,
            leaf,
            transposed: [false; 2],
            threads: 1,
            scales: [1.0, 0.0],
        }
    }

    /// Elements of a factor of `rows` x `columns`, stored as `transposed` states.
    fn factor(&self, index: usize) -> (Vec<F::Source>, usize, usize) {
        let [m, n, k] = self.sizes;
        let (rows, columns) = [(m, k), (k, n)][index];
        let elements: Vec<F::Source> = values(rows * columns, index as u64 + 1);
        if !self.transposed[index] {
            return (elements, columns, 1);
        }
        let positions = (0..columns).flat_map(|j| (0..rows).map(move |i| i * columns + j));
        (positions.map(|i| elements[i]).collect(), 1, rows)
    }

    /// Computes a part of the result from a part of the terms.
    fn part<C: Element<Acc = F::Sum>>(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        terms: Range<usize>,
    ) -> Vec<C> {
        let [(mut a, a_row, a_column), (mut b, b_row, b_column)] = [0, 1].map(|i| self.factor(i));
        let mut c: Vec<C> = values(rows.len() * columns.len(), 3);
        let strided = |data, row, column| Strided { data, row, column };
        let product = Product {
            format: self.format,
            sizes: [rows.len(), columns.len(), terms.len()],
            leaf: self.leaf,
            a: strided(a.as_mut_ptr(), a_row, a_column).from(rows.start, terms.start),
            b: Right::Elements(
                strided(b.as_mut_ptr(), b_row, b_column).from(terms.start, columns.start),
            ),
            c: Strided {
                data: c.as_mut_ptr(),
                row: columns.len(),
                column: 1,
            },
            finish: Finish {
                alpha: F::Sum::of(self.scales[0]),
                beta: F::Sum::of(self.scales[1]),
            },
        };
        // SAFETY: the vectors are live and hold the matrices, of which these are parts.
        unsafe { product.run(&Pool::new(self.threads).unwrap()) };
        c
    }

    fn full<C: Element<Acc = F::Sum>>(&self) -> Vec<C> {
        let [m, n, k] = self.sizes;
        self.part(0..m, 0..n, 0..k)
    }
}

fn bits<C: Element>(elements: &[C]) -> Vec<u64> {
    elements.iter().map(|x| x.acc().wide().to_bits()).collect()
}

/// The instructions that this processor has.
fn architectures() -> Vec<pulp::Arch> {
    let mut found = vec![pulp::Arch::Scalar];
    #[cfg(target_arch = "x86_64")]
    {
        found.extend(pulp::x86::V3::try_new().map(pulp::Arch::V3));
        found.extend(pulp::x86::V4::try_new().map(pulp::Arch::V4));
    }
    found
}

/// Runs a check in every format, each with the type of its results.
macro_rules! in_every_format {
    ($check:ident) => {
        for arch in architectures() {
            $check::<_, f64>(Widened::<f64>::on(arch));
            $check::<_, f32>(Widened::<f32>::on(arch));
            $check::<_, bf16>(Widened::<bf16>::on(arch));
            $check::<_, f16>(Widened::<f16>::on(arch));
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(pairs) = dot::Pairs::detect() {
            $check::<_, bf16>(pairs);
            $check::<_, f32>(pairs);
        }
    };
}

const LAYOUTS: [[bool; 2]; 4] = [[false, false], [false, true], [true, false], [true, true]];

fn parts_agree<F: Format, C: Element<Acc = F::Sum>>(format: F) {
    let sizes = [21, 107, 75];
    let problem = Problem::new(format, sizes, 16);
    let expected = bits(&problem.full::<C>());
    for transposed in LAYOUTS {
        let problem = Problem {
            transposed,
            ..problem.clone()
        };
        for rows in [0..21, 0..1, 5..6, 2..5, 3..12] {
            for columns in [0..107, 0..1, 50..51, 3..7, 13..64, 48..96] {
                let found = problem.part::<C>(rows.clone(), columns.clone(), 0..sizes[2]);
                let rows = rows.clone();
                let part = rows.flat_map(|row| &expected[row * 107..][columns.clone()]);
                assert!(part.eq(&bits(&found)), "{transposed:?} {columns:?}");
            }
        }
    }
}

#[test]
fn an_element_has_the_same_bits_in_every_part_and_layout() {
    in_every_format!(parts_agree);
}

/// Lengths of leaves, among them the shortest and the longest, and numbers of terms that end within a leaf, between leaves
/// and within a block of the factors.
fn leaves_and_terms() -> impl Iterator<Item = (usize, usize)> {
    [1, 2, 4, 6, 32, 64].into_iter().flat_map(|leaf| {
        let terms = [1, 2, leaf, leaf + 1, 3 * leaf, 7 * leaf - 1, 8 * leaf, 531];
        terms.map(|k| (leaf, k))
    })
}

fn nodes_agree<F: Format, C: Element<Acc = F::Sum>>(format: F) {
    let add = |left: Vec<F::Sum>, right: Vec<F::Sum>| -> Vec<F::Sum> {
        left.into_iter().zip(right).map(|(l, r)| l + r).collect()
    };
    for (leaf, k) in leaves_and_terms() {
        let problem = Problem::new(format, [9, 50, k], leaf);
        let mut tree = Tree::default();
        for node in sums::nodes(0..sums::leaves(k, leaf)) {
            let terms = node.start * leaf..k.min(node.end * leaf);
            let sums = problem.part::<F::Sum>(0..9, 0..50, terms);
            tree.push(node.len().ilog2(), sums, add);
        }
        let sums = tree.sum(add).unwrap();
        assert_eq!(bits(&problem.full::<F::Sum>()), bits(&sums), "{leaf} {k}");
        let rounded: Vec<C> = sums.into_iter().map(C::from_acc).collect();
        assert_eq!(bits(&problem.full::<C>()), bits(&rounded), "{leaf} {k}");
    }
}

#[test]
fn complete_nodes_add_up_to_the_bits_of_the_full_sum() {
    in_every_format!(nodes_agree);
}

/// The chain and the tree, written out. A link of the chain is a word, whose terms are added from the last to the first.
fn plain_sums<F: Format>(problem: &Problem<F>) -> Vec<F::Sum> {
    let [m, n, k] = problem.sizes;
    let [(a, ..), (b, ..)] = [0, 1].map(|index| problem.factor(index));
    let element = |i: usize, j: usize| {
        let mut tree = Tree::default();
        for leaf in 0..sums::leaves(k, problem.leaf) {
            let start = leaf * problem.leaf;
            let end = k.min(start + problem.leaf);
            let words = (start..end).step_by(F::TERMS);
            let terms = words.flat_map(|word| (word..end.min(word + F::TERMS)).rev());
            let sum = terms.fold(F::Sum::ZERO, |sum, p| {
                a[i * k + p].acc().mul_add(b[p * n + j].acc(), sum)
            });
            tree.push(0, sum, |left, right| left + right);
        }
        tree.sum(|left, right| left + right).unwrap()
    };
    (0..m)
        .flat_map(|i| (0..n).map(move |j| (i, j)))
        .map(|(i, j)| element(i, j))
        .collect()
}

fn sums_are_chains<F: Format, C: Element<Acc = F::Sum>>(format: F) {
    for (leaf, k) in leaves_and_terms().chain([(8, 0), (8, 45), (64, 1037)]) {
        for [m, n] in [[1, 70], [9, 50], [40, 1]] {
            let mut problem = Problem::new(format, [m, n, k], leaf);
            let expected = bits(&plain_sums(&problem));
            for transposed in [[false, false], [true, true]] {
                problem.transposed = transposed;
                let found = bits(&problem.full::<F::Sum>());
                assert_eq!(found, expected, "{m} {n} {k} {leaf} {transposed:?}");
            }
        }
    }
}

#[test]
fn every_processor_computes_the_same_chains() {
    in_every_format!(sums_are_chains);
}

fn scales_apply_to_the_sum<F: Format, C: Element<Acc = F::Sum>>(format: F) {
    for sizes in [[10, 60, 40], [1, 60, 40], [60, 1, 40]] {
        let problem = Problem::new(format, sizes, 8);
        let sums = problem.full::<F::Sum>();
        let old: Vec<C> = values(sums.len(), 3);
        for scales in [[1.0, 0.0], [0.7, 0.0], [1.0, 1.0], [0.7, -0.3]] {
            let [alpha, beta] = scales.map(F::Sum::of);
            let finished = sums.iter().zip(&old).map(|(&sum, old)| match scales[1] {
                0.0 => C::from_acc(alpha * sum),
                _ => C::from_acc(beta.mul_add(old.acc(), alpha * sum)),
            });
            let expected: Vec<C> = finished.collect();
            let scaled = Problem {
                scales,
                ..problem.clone()
            };
            assert_eq!(bits(&scaled.full::<C>()), bits(&expected), "{scales:?}");
        }
    }
}

#[test]
fn scales_apply_to_the_sum_of_all_terms() {
    in_every_format!(scales_apply_to_the_sum);
}

#[test]
fn threads_share_the_result_and_never_a_sum() {
    for sizes in [
        [300, 500, 70],
        [1, 3000, 400],
        [3000, 1, 400],
        [40, 2100, 64],
    ] {
        let problem = Problem::new(Widened::<f32>::on(pulp::Arch::new()), sizes, 32);
        let expected = bits(&problem.full::<f32>());
        for threads in [2, 3, 4, 6] {
            let problem = Problem {
                threads,
                ..problem.clone()
            };
            assert_eq!(
                bits(&problem.full::<f32>()),
                expected,
                "{sizes:?} {threads}"
            );
        }
    }
}
