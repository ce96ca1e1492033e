//! Reduces equally long slices of several ranks, element by element, always in the order in which they are
//! given.

use crate::element::Element;
use crate::view;
use bytemuck::Pod;
use hal::{DType, RawSlice, ReduceOp};
use half::{bf16, f16};

// Elements held in accumulators at a time: they stay in the first-level cache next to their source slices.
const BLOCK: usize = 2048;

/// Writes the reduction of `sources` to every slice of `outs`, which may be among the sources.
///
/// Sixteen-bit floats are reduced in f32 and rounded once. The maximum or minimum of numbers that include a NaN
/// is NaN. Integers wrap. The average of `sources` is that of floats.
///
/// # Safety
/// All slices have one length and type and are live host memory; nobody else writes to a source or accesses an
/// output meanwhile.
pub unsafe fn reduce(op: ReduceOp, sources: &[RawSlice], outs: &[RawSlice]) {
    match sources[0].dtype {
        // SAFETY: guaranteed by the caller, as in all arms; the type is the slices' own.
        DType::F64 => unsafe { reduce_as::<f64>(op, sources, outs) },
        // SAFETY: as above.
        DType::F32 => unsafe { reduce_as::<f32>(op, sources, outs) },
        // SAFETY: as above.
        DType::Bf16 => unsafe { reduce_as::<bf16>(op, sources, outs) },
        // SAFETY: as above.
        DType::F16 => unsafe { reduce_as::<f16>(op, sources, outs) },
        // SAFETY: as above.
        DType::I32 => unsafe { reduce_as::<i32>(op, sources, outs) },
        // SAFETY: as above.
        DType::U32 => unsafe { reduce_as::<u32>(op, sources, outs) },
        // SAFETY: as above.
        DType::U8 => unsafe { reduce_as::<u8>(op, sources, outs) },
    }
}

/// # Safety
/// That of [`reduce`], for elements of type `T`.
unsafe fn reduce_as<T: Addend>(op: ReduceOp, sources: &[RawSlice], outs: &[RawSlice]) {
    let len = sources[0].len;
    let mut room = [<T::Acc as bytemuck::Zeroable>::zeroed(); BLOCK];
    for start in (0..len).step_by(BLOCK) {
        let block = BLOCK.min(len - start);
        let acc = &mut room[..block];
        for (index, source) in sources.iter().enumerate() {
            // SAFETY: the caller guarantees the source, which nobody writes before `acc` is complete.
            let addend = unsafe { view::read::<T>(source.part(start, block)) };
            if index == 0 {
                each(addend, acc, |_, x| x.widen())
            } else {
                fold(op, addend, acc)
            }
        }
        if op == ReduceOp::Avg {
            over(sources.len(), acc);
        }
        for out in outs {
            // SAFETY: the caller guarantees the output, and no source is viewed any more.
            each(
                acc,
                unsafe { view::write::<T>(out.part(start, block)) },
                |_, x| T::narrow(x),
            );
        }
    }
}

fn fold<T: Addend>(op: ReduceOp, source: &[T], acc: &mut [T::Acc]) {
    match op {
        ReduceOp::Sum | ReduceOp::Avg => each(source, acc, |a, x| a.plus(x.widen())),
        ReduceOp::Max => each(source, acc, |a, x| a.larger(x.widen())),
        ReduceOp::Min => each(source, acc, |a, x| a.smaller(x.widen())),
    }
}

// Divides by a number of ranks.
fn over<N: Number>(ranks: usize, acc: &mut [N]) {
    let ranks = N::of(ranks);
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || acc.iter_mut().for_each(|it| *it = it.over(ranks)),
    );
}

// `to[i] = combine(to[i], from[i])`, with the vectors of this processor.
#[inline(always)]
fn each<A: Pod, B: Pod>(from: &[A], to: &mut [B], combine: impl Fn(B, A) -> B) {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            to.iter_mut()
                .zip(from)
                .for_each(|(to, &from)| *to = combine(*to, from))
        },
    );
}

/// An element type that ranks can reduce.
trait Addend: Pod {
    /// The type in which reductions are held.
    type Acc: Number;
    fn widen(self) -> Self::Acc;
    fn narrow(acc: Self::Acc) -> Self;
}

/// A number to reduce with.
trait Number: Pod {
    fn of(ranks: usize) -> Self;
    fn over(self, ranks: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn larger(self, other: Self) -> Self;
    fn smaller(self, other: Self) -> Self;
}

macro_rules! addend {
    ($type:ty, $acc:ty, $widen:expr, $narrow:expr) => {
        impl Addend for $type {
            type Acc = $acc;
            #[inline(always)]
            fn widen(self) -> $acc {
                $widen(self)
            }
            #[inline(always)]
            fn narrow(acc: $acc) -> $type {
                $narrow(acc)
            }
        }
    };
}

macro_rules! number {
    ($type:ty, $plus:expr, $larger:expr, $smaller:expr) => {
        impl Number for $type {
            fn of(ranks: usize) -> $type {
                ranks as $type
            }
            #[inline(always)]
            fn over(self, ranks: $type) -> $type {
                self / ranks
            }
            #[inline(always)]
            fn plus(self, other: $type) -> $type {
                $plus(self, other)
            }
            #[inline(always)]
            fn larger(self, other: $type) -> $type {
                $larger(self, other)
            }
            #[inline(always)]
            fn smaller(self, other: $type) -> $type {
                $smaller(self, other)
            }
        }
        addend!($type, $type, |x| x, |x| x);
    };
}

macro_rules! float {
    ($type:ty) => {
        // `a` stays if it wins or is NaN; a NaN `b` never loses.
        number!(
            $type,
            |a, b| a + b,
            |a: $type, b| if a >= b || a.is_nan() { a } else { b },
            |a: $type, b| if a <= b || a.is_nan() { a } else { b }
        );
    };
}

float!(f64);
float!(f32);
number!(i32, i32::wrapping_add, i32::max, i32::min);
number!(u32, u32::wrapping_add, u32::max, u32::min);
number!(u8, u8::wrapping_add, u8::max, u8::min);
addend!(bf16, f32, Element::acc, <bf16 as Element>::from_acc);
addend!(f16, f32, Element::acc, <f16 as Element>::from_acc);

#[cfg(test)]
mod tests {
    use super::*;

    fn raw<T>(values: &mut [T], dtype: DType) -> RawSlice {
        RawSlice {
            addr: values.as_mut_ptr() as u64,
            len: values.len(),
            dtype,
        }
    }

    fn reduced<T: Pod + Default>(op: ReduceOp, dtype: DType, mut sources: Vec<Vec<T>>) -> Vec<T> {
        let mut out = vec![T::default(); sources[0].len()];
        let slices: Vec<_> = sources
            .iter_mut()
            .map(|source| raw(source, dtype))
            .collect();
        // SAFETY: distinct vectors of one type and length.
        unsafe { reduce(op, &slices, &[raw(&mut out, dtype)]) };
        out
    }

    #[test]
    fn sums_of_sixteen_bits_are_rounded_once() {
        let third = 256.0 + 0.5 + 0.5;
        let bits = |x: f32| vec![bf16::from_f32(x); 5000];
        let sum = reduced(
            ReduceOp::Sum,
            DType::Bf16,
            vec![bits(256.0), bits(0.5), bits(0.5)],
        );
        assert_eq!(sum, bits(third));
        let bits = |x: f32| vec![f16::from_f32(x); 5000];
        let sum = reduced(
            ReduceOp::Sum,
            DType::F16,
            vec![bits(2048.0), bits(0.75), bits(1.25)],
        );
        assert_eq!(sum, bits(2050.0));
    }

    #[test]
    fn a_nan_is_neither_lost_nor_ordered() {
        let nan = f32::NAN;
        for op in [ReduceOp::Max, ReduceOp::Min] {
            let out = reduced(
                op,
                DType::F32,
                vec![vec![nan, 1.0, 1.0, -0.5], vec![1.0, nan, 2.0, -0.5]],
            );
            assert!(out[0].is_nan() && out[1].is_nan() && out[3] == -0.5);
            assert_eq!(out[2], if op == ReduceOp::Max { 2.0 } else { 1.0 });
        }
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(
            reduced(ReduceOp::Sum, DType::I32, vec![vec![i32::MAX], vec![1]]),
            [i32::MIN]
        );
        assert_eq!(
            reduced(ReduceOp::Max, DType::U32, vec![vec![3, 5], vec![4, 2]]),
            [4, 5]
        );
    }
}
