//! Vectors of f32 or f64, whose width the processor decides at run time.

use crate::element::Real;
use crate::matmul::transpose::transpose;
use bytemuck::Pod;
use pulp::Simd;

/// A number type of which a vector register holds several.
pub(crate) trait Lanes: Real {
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

    /// `a + b`, lane by lane.
    fn plus<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;

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
    ($type:ty, $vector:ident, $as_simd:ident, $as_mut_simd:ident, $splat:ident, $mul_add:ident, $add:ident) => {
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

            #[inline(always)]
            fn plus<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S> {
                simd.$add(a, b)
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
                let (source, target) = (from.as_ptr().cast(), to.as_mut_ptr());
                let from_bytes = from_step * size_of::<Self>();
                // SAFETY: both lengths are checked above; two borrows do not overlap.
                unsafe { transpose(source, from_bytes, rows, columns, target, to_step) }
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
    add_f32s
);
lanes!(
    f64,
    f64s,
    as_simd_f64s,
    as_mut_simd_f64s,
    splat_f64s,
    mul_add_f64s,
    add_f64s
);
