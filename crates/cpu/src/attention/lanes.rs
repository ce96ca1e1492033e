//! Vectors of f32 or f64, whose width the processor decides at run time.

use crate::element::Real;
use crate::matmul::transpose::transpose;
use bytemuck::Pod;
use pulp::Simd;

/// A number type of which a vector register holds several.
pub(super) trait Lanes: Real {
    /// A register of them.
    type Vector<S: Simd>: Pod;

    /// The slice as complete vectors.
    fn vectors<S: Simd>(slice: &[Self]) -> &[Self::Vector<S>];

    /// The mutable slice as complete vectors.
    fn vectors_mut<S: Simd>(slice: &mut [Self]) -> &mut [Self::Vector<S>];

    /// A vector of one number.
    fn splat<S: Simd>(simd: S, number: Self) -> Self::Vector<S>;

    /// `a * b + c`, lane by lane.
    fn fused<S: Simd>(
        simd: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
        c: Self::Vector<S>,
    ) -> Self::Vector<S>;

    /// Writes `rows` rows of `columns` numbers, which lie `from_step` apart, as columns of rows that lie `to_step` apart.
    fn transpose(
        from: &[Self],
        from_step: usize,
        rows: usize,
        columns: usize,
        to: &mut [Self],
        to_step: usize,
    );
}

macro_rules! lanes {
    ($type:ty, $vector:ident, $as_simd:ident, $as_mut_simd:ident, $splat:ident, $mul_add:ident, $transpose:expr) => {
        impl Lanes for $type {
            type Vector<S: Simd> = S::$vector;

            #[inline(always)]
            fn vectors<S: Simd>(slice: &[Self]) -> &[Self::Vector<S>] {
                S::$as_simd(slice).0
            }

            #[inline(always)]
            fn vectors_mut<S: Simd>(slice: &mut [Self]) -> &mut [Self::Vector<S>] {
                S::$as_mut_simd(slice).0
            }

            #[inline(always)]
            fn splat<S: Simd>(simd: S, number: Self) -> Self::Vector<S> {
                simd.$splat(number)
            }

            #[inline(always)]
            fn fused<S: Simd>(
                simd: S,
                a: Self::Vector<S>,
                b: Self::Vector<S>,
                c: Self::Vector<S>,
            ) -> Self::Vector<S> {
                simd.$mul_add(a, b, c)
            }

            fn transpose(
                from: &[Self],
                from_step: usize,
                rows: usize,
                columns: usize,
                to: &mut [Self],
                to_step: usize,
            ) {
                if rows == 0 || columns == 0 {
                    return;
                }
                let last = |step: usize, rows: usize, columns: usize| (rows - 1) * step + columns;
                assert!(
                    last(from_step, rows, columns) <= from.len(),
                    "{rows} rows, {from_step} apart"
                );
                assert!(
                    last(to_step, columns, rows) <= to.len(),
                    "{columns} rows, {to_step} apart"
                );
                $transpose(from, from_step, rows, columns, to, to_step)
            }
        }
    };
}

lanes!(
    f32,
    f32s,
    as_simd_f32s,
    as_mut_simd_f32s,
    splat_f32s,
    mul_add_f32s,
    transpose_f32
);
lanes!(
    f64,
    f64s,
    as_simd_f64s,
    as_mut_simd_f64s,
    splat_f64s,
    mul_add_f64s,
    transpose_f64
);

fn transpose_f32(
    from: &[f32],
    from_step: usize,
    rows: usize,
    columns: usize,
    to: &mut [f32],
    to_step: usize,
) {
    // SAFETY: `Lanes::transpose` has checked both lengths; two borrows do not overlap.
    unsafe {
        transpose(
            from.as_ptr(),
            from_step,
            rows,
            columns,
            to.as_mut_ptr(),
            to_step,
        )
    }
}

fn transpose_f64(
    from: &[f64],
    from_step: usize,
    rows: usize,
    columns: usize,
    to: &mut [f64],
    to_step: usize,
) {
    for row in 0..rows {
        for column in 0..columns {
            to[column * to_step + row] = from[row * from_step + column];
        }
    }
}
