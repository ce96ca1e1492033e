//! Mean and centred sum of squares of a row, by the tree of [`super::tree`].
//!
//! Two neighbours are joined as Chan, Golub and LeVeque do ("Updating formulae and a pairwise algorithm for computing
//! sample variances", 1979). A sum of squares about 0 would lose the digits of a small variance.

use super::{
    memory::Shared,
    tree::{Values, first, read, sum_row, total},
};
use crate::element::{Element, Real};
use hal::{kernel::NormKind, sums::Tree};

/// The moments of a part of a row.
#[derive(Clone, Copy)]
pub(super) struct PartMoments<A> {
    pub(super) columns: usize,
    pub(super) mean: A,
    pub(super) squares: A,
}

impl<A: Real> PartMoments<A> {
    pub(super) const NONE: Self = PartMoments {
        columns: 0,
        mean: A::ZERO,
        squares: A::ZERO,
    };

    /// The moments of a part and its right neighbour.
    #[inline(always)]
    pub(super) fn join(self, right: Self) -> Self {
        let columns = self.columns + right.columns;
        if self.columns == right.columns {
            let half = A::of(self.columns as f64 * 0.5);
            return PartMoments {
                columns,
                mean: join_means(self.mean, right.mean),
                squares: join_squares([self.squares, right.squares], right.mean - self.mean, half),
            };
        }
        let share = right.columns as f64 / columns as f64;
        let difference = right.mean - self.mean;
        let factor = A::of(self.columns as f64 * share);
        PartMoments {
            columns,
            mean: self.mean + difference * A::of(share),
            squares: join_squares([self.squares, right.squares], difference, factor),
        }
    }
}

// Of parts with equally many columns.
#[inline(always)]
fn join_means<A: Real>(left: A, right: A) -> A {
    (left + right) * A::of(0.5)
}

#[inline(always)]
fn join_squares<A: Real>([left, right]: [A; 2], difference: A, factor: A) -> A {
    left + right + difference * difference * factor
}

/// The moments of all columns of a row; the mean is that of `Layer`, and 0 for the others.
#[inline(always)]
pub(super) fn of_row<T: Element>(
    tree: &mut Tree<PartMoments<T::Acc>>,
    values: &mut Values<T::Acc>,
    kind: NormKind,
    x: Shared<T>,
) -> PartMoments<T::Acc> {
    let sum = sum_row(
        tree,
        x.len(),
        #[inline(always)]
        |start, columns| {
            let (mean, squares) = match kind {
                NormKind::Layer => {
                    read(
                        values,
                        x,
                        start,
                        columns,
                        #[inline(always)]
                        |x| x,
                    );
                    centred(values, columns)
                }
                NormKind::Rms | NormKind::RmsOffset => {
                    read(
                        values,
                        x,
                        start,
                        columns,
                        #[inline(always)]
                        |x| x * x,
                    );
                    (Real::ZERO, total(values, columns))
                }
            };
            PartMoments {
                columns,
                mean,
                squares,
            }
        },
        #[inline(always)]
        |left, right| left.join(right),
    );
    match sum {
        Some(moments) => moments,
        None => PartMoments::NONE,
    }
}

/// Mean and centred squares of the first `columns` values, a power of 2.
#[inline(always)]
fn centred<A: Real>(x: &Values<A>, columns: usize) -> (A, A) {
    match columns {
        256 => of_256(&single(x), 256),
        128 => of_128(&single(x), 128),
        64 => of_64(&single(x), 64),
        32 => of_32(&single(x), 32),
        columns => of_few(single(x), columns),
    }
}

/// Means and squares of nodes beside each other.
type Nodes<A, const N: usize> = ([A; N], [A; N]);

#[inline(always)]
fn single<A: Real, const N: usize>(x: &Values<A>) -> Nodes<A, N> {
    (*first(x), [A::ZERO; N])
}

// One function for each length, as in `tree`; the nodes have `columns` columns together.

#[inline(always)]
fn of_256<A: Real>(nodes: &Nodes<A, 256>, columns: usize) -> (A, A) {
    of_128(&level(nodes, columns), columns)
}

#[inline(always)]
fn of_128<A: Real>(nodes: &Nodes<A, 128>, columns: usize) -> (A, A) {
    of_64(&level(nodes, columns), columns)
}

#[inline(always)]
fn of_64<A: Real>(nodes: &Nodes<A, 64>, columns: usize) -> (A, A) {
    of_32(&level(nodes, columns), columns)
}

#[inline(always)]
fn of_32<A: Real>(nodes: &Nodes<A, 32>, columns: usize) -> (A, A) {
    let nodes: Nodes<A, 16> = level(nodes, columns);
    let nodes: Nodes<A, 8> = level(&nodes, columns);
    let nodes: Nodes<A, 4> = level(&nodes, columns);
    let nodes: Nodes<A, 2> = level(&nodes, columns);
    let ([mean], [squares]): Nodes<A, 1> = level(&nodes, columns);
    (mean, squares)
}

#[inline(always)]
fn level<A: Real, const N: usize, const HALF: usize>(
    (from_means, from_squares): &Nodes<A, N>,
    columns: usize,
) -> Nodes<A, HALF> {
    let half = A::of((columns / N) as f64 * 0.5);
    let (mut means, mut squares) = ([A::ZERO; HALF], [A::ZERO; HALF]);
    for i in 0..HALF {
        let (left, right) = (from_means[2 * i], from_means[2 * i + 1]);
        means[i] = join_means(left, right);
        let both = [from_squares[2 * i], from_squares[2 * i + 1]];
        squares[i] = join_squares(both, right - left, half);
    }
    (means, squares)
}

#[inline(always)]
fn of_few<A: Real>((mut means, mut squares): Nodes<A, 16>, columns: usize) -> (A, A) {
    let mut width = columns;
    while width > 1 {
        let half = A::of((columns / width) as f64 * 0.5);
        width /= 2;
        for i in 0..width {
            let (left, right) = (means[2 * i], means[2 * i + 1]);
            means[i] = join_means(left, right);
            let both = [squares[2 * i], squares[2 * i + 1]];
            squares[i] = join_squares(both, right - left, half);
        }
    }
    (means[0], squares[0])
}
