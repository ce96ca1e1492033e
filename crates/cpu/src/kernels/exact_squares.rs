//! Sums of squares without rounding, whatever the order of the elements.
//!
//! The largest gradient fixes a power of 2 by which all are scaled below 1. Adding and subtracting a constant rounds the
//! square of each to a multiple of 2^-38, and the rest to a multiple of 2^-76, as Demmel and Nguyen do ("Fast reproducible
//! floating-point summation", ARITH 2013). Sums of such multiples are exact: in f64 within a part, in i128 over parts. So
//! each element is rounded once, and no sum is.

use super::{
    block::blocks,
    dispatch::{dispatch, unsupported},
    memory::{BLOCK, Shared},
    reduce::{Lanes, fold},
    simd::vectorise,
    squares::{parts, squares_of},
};
use crate::{
    element::{Element, Real},
    pool::Pool,
};
use bytemuck::Pod;
use hal::{
    RawSlice, Result,
    kernel::{ExactSquares, ExactTotal, Largest},
};

/// Binary digits of a square that the first of its two parts holds, and those of the second.
const DIGITS: i32 = 38;
/// Binary digits of the lower two of the three sums, which leaves room for 2^20 launches on all ranks.
const LIMB: u32 = 33;

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn largest(args: &Largest, pool: &Pool) -> Result<()> {
    // SAFETY: guaranteed by the caller: a part of a live slice that nothing writes to.
    let work = |part| unsafe { largest_of(part) };
    let found = each_part("largest", &args.slices, pool, work)?;
    // SAFETY: guaranteed by the caller, which passes one f64.
    let out = unsafe { Shared::<f64>::new(args.out) };
    out.set(0, found.into_iter().fold(out.get(0), f64::max));
    Ok(())
}

/// The results of `work` on all parts of all slices, in order.
fn each_part<R: Pod + Send>(
    operation: &str,
    slices: &[RawSlice],
    pool: &Pool,
    work: impl Fn(RawSlice) -> R + Sync,
) -> Result<Vec<R>> {
    if let Some(slice) = slices.iter().find(|slice| !slice.dtype.is_float()) {
        return Err(unsupported(operation, slice.dtype));
    }
    let parts: Vec<RawSlice> = slices.iter().flat_map(parts).collect();
    let mut results = vec![R::zeroed(); parts.len()];
    // SAFETY: `results` outlives the loop, whose threads write disjoint elements.
    let shared = unsafe { Shared::of(&mut results) };
    pool.split(parts.len(), 1, |range| {
        for index in range {
            shared.set(index, work(parts[index]));
        }
    });
    Ok(results)
}

/// # Safety
/// `part` is live, of the float type it names, and nothing writes to it.
unsafe fn largest_of(part: RawSlice) -> f64 {
    let found = dispatch!("largest", part.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slice's own.
        let x = unsafe { Shared::<T>::new(part) };
        Ok(vectorise(#[inline(always)] || largest_in(x).wide()))
    });
    found.unwrap_or(f64::INFINITY)
}

// A comparison with NaN is false, so a NaN becomes infinity: a maximum could lose it.
#[inline(always)]
pub(super) fn largest_in<T: Element>(x: Shared<T>) -> T::Acc {
    let infinity = -T::Acc::LOWEST;
    let mut lanes = [T::Acc::ZERO; BLOCK];
    blocks(
        0..x.len(),
        #[inline(always)]
        |start, len| {
            let values = x.load::<T::Acc>(start, len);
            for i in 0..BLOCK {
                let value = values[i];
                let size = if value < T::Acc::ZERO { -value } else { value };
                let size = if size < infinity { size } else { infinity };
                lanes[i] = lanes[i].max(size);
            }
        },
    );
    fold(
        lanes,
        #[inline(always)]
        |a, b| a.max(b),
    )
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn exact_squares(args: &ExactSquares, pool: &Pool) -> Result<()> {
    // SAFETY: guaranteed by the caller, which passes one f64 and three.
    let [largest, sums] = unsafe { Shared::<f64>::all([args.largest, args.sums]) };
    let add = |index: usize, value: f64| sums.set(index, sums.get(index) + value);
    if !largest.get(0).is_finite() {
        // SAFETY: guaranteed by the caller: a part of a live slice that nothing writes to.
        let work = |part| unsafe { squares_of(part) }.unwrap_or(f64::NAN);
        let found = each_part("exact_squares", &args.slices, pool, work)?;
        // Infinity and NaN must stay visible; beside them, a finite sum no longer counts.
        found
            .into_iter()
            .filter(|sum| !sum.is_finite())
            .for_each(|sum| add(2, sum));
        return Ok(());
    }
    let scale = power_of_two(-exponent(largest.get(0)));
    // SAFETY: guaranteed by the caller: a part of a live slice that nothing writes to.
    let work = |part| unsafe { multiples_of(part, scale) };
    let found = each_part("exact_squares", &args.slices, pool, work)?;
    let sum: i128 = found.into_iter().sum();
    let limb = (1 << LIMB) - 1;
    add(0, (sum & limb) as f64);
    add(1, (sum >> LIMB & limb) as f64);
    add(2, (sum >> (2 * LIMB)) as f64);
    Ok(())
}

/// The sum of the squares of a part, in multiples of 2^-76.
///
/// # Safety
/// As for [`largest_of`].
unsafe fn multiples_of(part: RawSlice, scale: f64) -> i128 {
    let found = dispatch!("exact_squares", part.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slice's own.
        let x = unsafe { Shared::<T>::new(part) };
        Ok(vectorise(#[inline(always)] || multiples_in(x, scale)))
    });
    let [high, low]: [Lanes<f64>; 2] = found.unwrap_or([[f64::NAN; BLOCK]; 2]);
    let sum = |lanes: Lanes<f64>, digits: i32| -> i128 {
        let unit = power_of_two(digits);
        lanes.iter().map(|lane| (lane * unit) as i128).sum()
    };
    (sum(high, DIGITS) << DIGITS) + sum(low, 2 * DIGITS)
}

// A lane adds at most 2^11 multiples up to 2^38, which f64 holds.
#[inline(always)]
fn multiples_in<T: Element>(x: Shared<T>, scale: f64) -> [Lanes<f64>; 2] {
    // The last digit of a number near 1.5 * 2^(52 - n) is 2^-n.
    let rounds = |digits: i32| 1.5 * power_of_two(52 - digits);
    let (to_high, to_low) = (rounds(DIGITS), rounds(2 * DIGITS));
    let (mut high, mut low) = ([0.0; BLOCK], [0.0; BLOCK]);
    blocks(
        0..x.len(),
        #[inline(always)]
        |start, len| {
            let values = x.load::<f64>(start, len);
            for i in 0..BLOCK {
                let value = values[i] * scale;
                let square = value * value;
                let first = (square + to_high) - to_high;
                high[i] += first;
                low[i] += ((square - first) + to_low) - to_low;
            }
        },
    );
    [high, low]
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn exact_total(args: &ExactTotal) -> Result<()> {
    // SAFETY: guaranteed by the caller, which passes one f64, three and one.
    let [largest, sums, out] = unsafe { Shared::<f64>::all([args.largest, args.sums, args.out]) };
    let (largest, sums) = (largest.get(0), [0, 1, 2].map(|index| sums.get(index)));
    out.set(0, total(largest, sums));
    Ok(())
}

fn total(largest: f64, sums: [f64; 3]) -> f64 {
    if sums[2].is_nan() {
        return f64::NAN;
    }
    if !largest.is_finite() {
        return f64::INFINITY;
    }
    let [low, middle, high] = sums.map(|sum| sum as i128);
    let sum = (high << (2 * LIMB)) + (middle << LIMB) + low;
    // In two steps, because the square of the power may be out of range where the result is not.
    let root = power_of_two(exponent(largest) - DIGITS);
    sum as f64 * root * root
}

/// The smallest n for which `largest` is below 2^n; at least -900, so that all powers here are normal or exact.
pub(super) fn exponent(largest: f64) -> i32 {
    match largest {
        0.0 => 0,
        largest => ((largest.to_bits() >> 52) as i32 - 1022).max(-900),
    }
}

/// 2^n, for n from -1074 to 1023.
pub(super) fn power_of_two(n: i32) -> f64 {
    match n {
        -1022.. => f64::from_bits(((n + 1023) as u64) << 52),
        n => f64::from_bits(1 << (n + 1074)),
    }
}
