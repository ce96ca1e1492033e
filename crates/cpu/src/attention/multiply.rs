//! Multiplies two small blocks that lie in the cache.

use crate::lanes::Lanes;
use pulp::{Simd, WithSimd};

// Rows of the result that a tile computes at once, each in as many vectors as registers allow. Rows that are left over, as
// those of a single query, are computed one by one, in vectors enough that no sum waits for itself.
const TILE_ROWS: usize = 4;
const ROW_VECTORS: usize = 8;

/// A left factor: element (row, depth) is `data[row * row_step + depth * depth_step]`, so it may be a transpose.
#[derive(Clone, Copy)]
pub(super) struct Left<'a, R> {
    pub(super) data: &'a [R],
    pub(super) row_step: usize,
    pub(super) depth_step: usize,
}

/// A right factor, row by row; `step` is a multiple of [`GROUP`](super::GROUP).
#[derive(Clone, Copy)]
pub(super) struct Right<'a, R> {
    pub(super) data: &'a [R],
    pub(super) step: usize,
}

/// `out = left right`, or `out += left right`.
///
/// `columns` and both steps are multiples of [`GROUP`](super::GROUP); `rows` and `depth` are any numbers.
pub(super) struct Multiply<'a, R> {
    pub(super) out: &'a mut [R],
    pub(super) out_step: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) left: Left<'a, R>,
    pub(super) right: Right<'a, R>,
    pub(super) depth: usize,
    /// Whether to add to the content of `out`.
    pub(super) add: bool,
}

impl<R: Lanes> Multiply<'_, R> {
    /// Computes it.
    #[inline(always)]
    pub(super) fn run<S: Simd>(self, simd: S) {
        simd.vectorize(self);
    }
}

impl<R: Lanes> WithSimd for Multiply<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let lanes = size_of::<R::Vector<S>>() / size_of::<R>();
        let width = if S::REGISTER_COUNT >= 32 { 4 } else { 2 };
        let tiles = Tiles::<R, S> {
            simd,
            out: R::vectors_mut::<S>(self.out),
            out_step: self.out_step / lanes,
            left: self.left,
            right: R::vectors::<S>(self.right.data),
            right_step: self.right.step / lanes,
            depth: self.depth,
            add: self.add,
        };
        tiles.all(self.rows, self.columns / lanes, width);
    }
}

/// The same with slices of vectors, and steps in vectors.
struct Tiles<'a, R: Lanes, S: Simd> {
    simd: S,
    out: &'a mut [R::Vector<S>],
    out_step: usize,
    left: Left<'a, R>,
    right: &'a [R::Vector<S>],
    right_step: usize,
    depth: usize,
    add: bool,
}

impl<R: Lanes, S: Simd> Tiles<'_, R, S> {
    // Columns are the outer loop, so that a strip of the right factor stays in the first-level cache while the
    // rows pass.
    #[inline(always)]
    fn all(mut self, rows: usize, vectors: usize, width: usize) {
        let (full, mut column) = (rows / TILE_ROWS * TILE_ROWS, 0);
        while column < vectors && full > 0 {
            let strip = width.min(vectors - column);
            for row in (0..full).step_by(TILE_ROWS) {
                match strip {
                    4 => self.tile::<TILE_ROWS, 4>(row, column),
                    3 => self.tile::<TILE_ROWS, 3>(row, column),
                    2 => self.tile::<TILE_ROWS, 2>(row, column),
                    _ => self.tile::<TILE_ROWS, 1>(row, column),
                };
            }
            column += strip;
        }
        for row in full..rows {
            let mut column = 0;
            while column < vectors {
                column += match vectors - column {
                    ROW_VECTORS.. => self.tile::<1, ROW_VECTORS>(row, column),
                    4.. => self.tile::<1, 4>(row, column),
                    _ => self.tile::<1, 1>(row, column),
                };
            }
        }
    }

    /// `M` rows and `N` vectors of the result, held in registers throughout; returns `N`.
    #[inline(always)]
    fn tile<const M: usize, const N: usize>(&mut self, row: usize, column: usize) -> usize {
        let simd = self.simd;
        let mut sums = [[R::splat(simd, R::ZERO); N]; M];
        if self.add {
            for r in 0..M {
                let out = &self.out[(row + r) * self.out_step + column..][..N];
                for n in 0..N {
                    sums[r][n] = out[n];
                }
            }
        }
        for depth in 0..self.depth {
            let right = &self.right[depth * self.right_step + column..][..N];
            for r in 0..M {
                let index = (row + r) * self.left.row_step + depth * self.left.depth_step;
                let left = R::splat(simd, self.left.data[index]);
                for n in 0..N {
                    sums[r][n] = R::fused(simd, left, right[n], sums[r][n]);
                }
            }
        }
        for r in 0..M {
            let out = &mut self.out[(row + r) * self.out_step + column..][..N];
            for n in 0..N {
                out[n] = sums[r][n];
            }
        }
        N
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(i: usize) -> f64 {
        ((i * 7919) % 1013) as f64 / 1013.0 - 0.5
    }

    fn check<R: Lanes>(tolerance: f64, scalar: bool) {
        for (rows, columns, depth, add) in [
            (16, 16, 1, false),
            (48, 80, 7, true),
            (64, 64, 64, false),
            (16, 48, 0, false),
            (1, 208, 9, true),
            (7, 64, 12, false),
        ] {
            let (row_step, depth_step) = if add { (1, rows) } else { (depth.max(1), 1) };
            let left: Vec<R> = (0..rows * depth.max(1)).map(|i| R::of(value(i))).collect();
            let right: Vec<R> = (0..depth * (columns + 16))
                .map(|i| R::of(value(i + 5)))
                .collect();
            let old: Vec<R> = (0..rows * columns).map(|i| R::of(value(i + 9))).collect();
            let mut out = old.clone();
            let multiply = Multiply {
                out: &mut out,
                out_step: columns,
                rows,
                columns,
                left: Left {
                    data: &left,
                    row_step,
                    depth_step,
                },
                right: Right {
                    data: &right,
                    step: columns + 16,
                },
                depth,
                add,
            };
            if scalar {
                multiply.run(pulp::Scalar::new())
            } else {
                pulp::Arch::new().dispatch(multiply)
            }
            for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
                let term = |p: usize| {
                    left[i * row_step + p * depth_step].wide()
                        * right[p * (columns + 16) + j].wide()
                };
                let old = if add {
                    old[i * columns + j].wide()
                } else {
                    0.0
                };
                let exact = old + (0..depth).map(term).sum::<f64>();
                assert!(
                    (out[i * columns + j].wide() - exact).abs() < tolerance,
                    "({i}, {j})"
                );
            }
        }
    }

    #[test]
    fn products_of_both_types_match_plain_sums() {
        for scalar in [false, true] {
            check::<f32>(1e-5, scalar);
            check::<f64>(1e-13, scalar);
        }
    }
}
