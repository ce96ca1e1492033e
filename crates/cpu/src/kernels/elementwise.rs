//! Fill, cast, scaled sum, and the four arithmetic operations.

use super::{
    block::{GRAIN, map, split, split_blocks, zip},
    dispatch::dispatch,
    memory::{BLOCK, Shared},
};
use crate::{
    element::{Element, Real},
    pool::Pool,
};
use bytemuck::Pod;
use hal::{
    DType, RawSlice, Result,
    kernel::{Axpby, Binary, BinaryOp, Cast, Fill},
};

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn fill(args: &Fill, pool: &Pool) -> Result<()> {
    match args.out.dtype {
        DType::I32 => {
            // SAFETY: guaranteed by the caller; the type is the slice's own.
            unsafe { set_all(args.out, args.value as i32, pool) };
            Ok(())
        }
        DType::U32 => {
            // SAFETY: guaranteed by the caller; the type is the slice's own.
            unsafe { set_all(args.out, args.value as u32, pool) };
            Ok(())
        }
        DType::U8 => {
            // SAFETY: guaranteed by the caller; the type is the slice's own.
            unsafe { set_all(args.out, args.value as u8, pool) };
            Ok(())
        }
        float => dispatch!("fill", float, T => {
            // SAFETY: guaranteed by the caller; the type is the slice's own.
            unsafe { set_all(args.out, T::nearest(args.value), pool) };
            Ok(())
        }),
    }
}

/// # Safety
/// `out` is live memory of elements of type `T` that nothing else uses.
unsafe fn set_all<T: Pod + Send + Sync>(out: RawSlice, value: T, pool: &Pool) {
    // SAFETY: guaranteed by the caller; the threads get disjoint parts.
    let out = unsafe { Shared::<T>::new(out) };
    pool.split(out.len(), GRAIN, |range| {
        // SAFETY: the ranges are disjoint, and nothing else uses the memory.
        unsafe { out.part_mut(range) }.fill(value);
    });
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn cast(args: &Cast, pool: &Pool) -> Result<()> {
    dispatch!("cast", args.x.dtype, X => dispatch!("cast", args.out.dtype, Y => {
        // SAFETY: guaranteed by the caller; the type is the slice's own.
        let x = unsafe { Shared::<X>::new(args.x) };
        // SAFETY: guaranteed by the caller; the type is the slice's own.
        let out = unsafe { Shared::<Y>::new(args.out) };
        convert(x, out, pool);
        Ok(())
    }))
}

fn convert<X: Element, Y: Element>(x: Shared<X>, out: Shared<Y>, pool: &Pool) {
    split(
        pool,
        out.len(),
        GRAIN,
        #[inline(always)]
        |range| out.convert(x, range.start, range.len()),
    );
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn axpby(args: &Axpby, pool: &Pool) -> Result<()> {
    dispatch!("axpby", args.x.dtype, X => dispatch!("axpby", args.y.dtype, Y => {
        // SAFETY: guaranteed by the caller; the type is the slice's own.
        let x = unsafe { Shared::<X>::new(args.x) };
        // SAFETY: guaranteed by the caller; the type is the slice's own.
        let y = unsafe { Shared::<Y>::new(args.y) };
        let (alpha, beta) = (Real::of(args.alpha), Real::of(args.beta));
        if args.beta == 0.0 { scale(x, y, alpha, pool) } else { scaled_sum(x, y, alpha, beta, pool) }
        Ok(())
    }))
}

// Separate from `scaled_sum`, because the old `y` may be anything, including NaN.
fn scale<X: Element, Y: Element>(x: Shared<X>, y: Shared<Y>, alpha: Y::Acc, pool: &Pool) {
    split_blocks(
        pool,
        y.len(),
        #[inline(always)]
        |start, len| {
            let mut values = x.load::<Y::Acc>(start, len);
            for value in &mut values {
                *value *= alpha;
            }
            y.store(start, len, values);
        },
    );
}

fn scaled_sum<X: Element, Y: Element>(
    x: Shared<X>,
    y: Shared<Y>,
    alpha: Y::Acc,
    beta: Y::Acc,
    pool: &Pool,
) {
    split_blocks(
        pool,
        y.len(),
        #[inline(always)]
        |start, len| {
            let read = [x.load::<Y::Acc>(start, len), y.load::<Y::Acc>(start, len)];
            let [sum] = zip(
                read,
                #[inline(always)]
                |[x, y]| [alpha * x + beta * y],
            );
            y.store(start, len, sum);
        },
    );
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn binary(args: &Binary, pool: &Pool) -> Result<()> {
    dispatch!("binary", args.a.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        let [a, b, out] = unsafe { Shared::<T>::all([args.a, args.b, args.out]) };
        match args.op {
            BinaryOp::Add => combine(pool, a, b, out, #[inline(always)] |[a, b]| [a + b]),
            BinaryOp::Sub => combine(pool, a, b, out, #[inline(always)] |[a, b]| [a - b]),
            BinaryOp::Mul => combine(pool, a, b, out, #[inline(always)] |[a, b]| [a * b]),
            BinaryOp::Div => combine(pool, a, b, out, #[inline(always)] |[a, b]| [a / b]),
        }
        Ok(())
    })
}

// `out[i] = f([a[i], b[i % b.len]])`.
#[inline(always)]
fn combine<T: Element>(
    pool: &Pool,
    a: Shared<T>,
    b: Shared<T>,
    out: Shared<T>,
    f: impl Fn([T::Acc; 2]) -> [T::Acc; 1] + Sync,
) {
    if b.len() == out.len() {
        return map(pool, [a, b], [out], f);
    }
    split_blocks(
        pool,
        out.len(),
        #[inline(always)]
        |start, len| {
            let read = [a.load(start, len), repeated(b, start, len)];
            let [result] = zip(
                read,
                #[inline(always)]
                |values| f(values),
            );
            out.store(start, len, result);
        },
    );
}

// A block of `x`, repeated, from element `start` of the repetition on.
#[inline(always)]
fn repeated<T: Element>(x: Shared<T>, start: usize, len: usize) -> [T::Acc; BLOCK] {
    if x.len() == 1 {
        return [x.get(0).acc(); BLOCK];
    }
    let (period, mut at) = (x.len(), start % x.len());
    if period - at >= len {
        return x.load(at, len);
    }
    let mut block = [T::Acc::ZERO; BLOCK];
    for value in block.iter_mut().take(len) {
        *value = x.get(at).acc();
        at = if at + 1 == period { 0 } else { at + 1 };
    }
    block
}
