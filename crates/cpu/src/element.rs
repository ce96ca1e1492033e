//! Element types as Rust types, and the arithmetic that kernels do in their accumulators.

use half::{bf16, f16};

/// A floating-point element: stored as itself, computed on as its accumulator.
pub(crate) trait Element: bytemuck::Pod + Send + Sync {
    /// f32, or f64 for f64.
    type Acc: Real;
    /// The element as its accumulator.
    fn acc(self) -> Self::Acc;
    /// The nearest element to an accumulator.
    fn from_acc(acc: Self::Acc) -> Self;
    /// The nearest element to an f64, rounded once.
    fn nearest(value: f64) -> Self;
}

/// A number that kernels compute with: f32 or f64.
pub(crate) trait Real:
    Element<Acc = Self>
    + PartialOrd
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Neg<Output = Self>
    + std::ops::AddAssign
    + std::ops::MulAssign
    + std::iter::Sum
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Minus infinity.
    const LOWEST: Self;
    /// The nearest number to an f64.
    fn of(value: f64) -> Self;
    /// This number as f64.
    fn wide(self) -> f64;
    /// e to this power; vectorises for f32, relative error below 2e-7.
    fn exp(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// Square root.
    fn sqrt(self) -> Self;
    /// `self * a + b`, rounded once where the processor can.
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// The larger one.
    fn max(self, other: Self) -> Self;
    /// Without its fraction, for numbers from 0 to 255.
    fn small(self) -> u8;

    /// Hyperbolic tangent; vectorises for f32, relative error below 5e-7.
    fn tanh(self) -> Self;

    /// 1 / (1 + exp(-x)).
    #[inline(always)]
    fn sigmoid(self) -> Self {
        Self::ONE / (Self::ONE + (-self).exp())
    }
}

macro_rules! element {
    ($type:ty, $acc:ty, $to:expr, $from:expr, $nearest:expr) => {
        impl Element for $type {
            type Acc = $acc;
            #[inline(always)]
            fn acc(self) -> $acc {
                $to(self)
            }
            #[inline(always)]
            fn from_acc(acc: $acc) -> Self {
                $from(acc)
            }
            #[inline(always)]
            fn nearest(value: f64) -> Self {
                $nearest(value)
            }
        }
    };
}

element!(f32, f32, |x| x, |x| x, |x| x as f32);
element!(f64, f64, |x| x, |x| x, |x| x);
element!(f16, f32, widen_f16, narrow_f16, |x| narrow_f16(
    round_to_odd(x)
));
element!(bf16, f32, widen_bf16, narrow_bf16, |x| narrow_bf16(
    round_to_odd(x)
));

// An inexact result gets an odd last digit, so that rounding it again to a shorter type equals rounding once.
#[inline(always)]
fn round_to_odd(x: f64) -> f32 {
    let near = x as f32;
    let back = f64::from(near);
    let towards_zero = near.to_bits().wrapping_sub(u32::from(back.abs() > x.abs()));
    if back == x {
        near
    } else {
        f32::from_bits(towards_zero | 1)
    }
}

#[inline(always)]
fn widen_bf16(x: bf16) -> f32 {
    f32::from_bits(u32::from(x.to_bits()) << 16)
}

// Round to nearest even without a branch but for NaN, so that loops over it vectorise.
#[inline(always)]
fn narrow_bf16(x: f32) -> bf16 {
    let bits = x.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
    let quiet_nan = (bits >> 16) as u16 | 0x40;
    bf16::from_bits(if x.is_nan() { quiet_nan } else { rounded })
}

// A multiplication corrects the exponent; it is exact, and denormals come out right. `half` asks the processor
// for its conversion one element at a time, which no loop can vectorise.
#[inline(always)]
fn widen_f16(x: f16) -> f32 {
    const TWO_TO_112: f32 = f32::from_bits((127 + 112) << 23);
    let bits = u32::from(x.to_bits());
    let magnitude = (bits & 0x7fff) << 13;
    let scaled = (f32::from_bits(magnitude) * TWO_TO_112).to_bits();
    let special = magnitude | 0x7f80_0000 | (u32::from(magnitude > 0x0f80_0000) << 22);
    let value = if magnitude >= 0x0f80_0000 {
        special
    } else {
        scaled
    };
    f32::from_bits(value | ((bits & 0x8000) << 16))
}

// Round to nearest even without a branch. Below the normal range, adding 0.5 lets the processor round at the right digit.
#[inline(always)]
fn narrow_f16(x: f32) -> f16 {
    const INFINITY: u32 = 0x7c00;
    let sign = (x.to_bits() >> 16) & 0x8000;
    let bits = x.to_bits() & 0x7fff_ffff;
    let normal = bits
        .wrapping_sub(112 << 23)
        .wrapping_add(0xfff + ((bits >> 13) & 1))
        >> 13;
    let denormal = (f32::from_bits(bits) + 0.5)
        .to_bits()
        .wrapping_sub(0.5f32.to_bits());
    let nan = INFINITY | 0x200 | ((bits >> 13) & 0x3ff);
    let value = if bits < 113 << 23 { denormal } else { normal };
    let value = if bits >= 143 << 23 { INFINITY } else { value };
    let value = if bits > 0x7f80_0000 { nan } else { value };
    f16::from_bits((value | sign) as u16)
}

macro_rules! real {
    ($type:ident, $exp:expr, $tanh:expr) => {
        impl Real for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LOWEST: Self = <$type>::NEG_INFINITY;
            #[inline(always)]
            fn of(value: f64) -> Self {
                value as $type
            }
            #[inline(always)]
            fn wide(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn exp(self) -> Self {
                $exp(self)
            }
            #[inline(always)]
            fn tanh(self) -> Self {
                $tanh(self)
            }
            #[inline(always)]
            fn ln(self) -> Self {
                self.ln()
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            #[inline(always)]
            fn mul_add(self, a: Self, b: Self) -> Self {
                <$type>::mul_add(self, a, b)
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                if self > other { self } else { other }
            }
            #[inline(always)]
            fn small(self) -> u8 {
                self as i32 as u8
            }
        }
    };
}

real!(f32, exp_f32, tanh_f32);
real!(f64, f64::exp, f64::tanh);

// exp(x) = 2^n * exp(r) with r in [-ln 2 / 2, ln 2 / 2], by its Taylor polynomial of degree 6 (error below 1.3e-7 relative).
// Without branches or calls, so that loops over it vectorise. 2^n is applied in two halves, which covers denormals.
#[inline(always)]
fn exp_f32(x: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to an integer
    let x_clamped = if x > 89.0 { 89.0 } else { x };
    let x_clamped = if x_clamped < -104.0 {
        -104.0
    } else {
        x_clamped
    };
    let shifted = x_clamped.mul_add(std::f32::consts::LOG2_E, SHIFT);
    let n = shifted - SHIFT;
    let r = n.mul_add(-1.428_606_8e-6, n.mul_add(-0.693_145_75, x_clamped));
    let p = r.mul_add(1.0 / 720.0, 1.0 / 120.0);
    let p = p.mul_add(r, 1.0 / 24.0);
    let p = p.mul_add(r, 1.0 / 6.0);
    let p = p.mul_add(r, 0.5);
    let p = p.mul_add(r, 1.0).mul_add(r, 1.0);
    let power = shifted.to_bits() as i32 - SHIFT.to_bits() as i32;
    let half = power >> 1;
    let two_to = |n: i32| f32::from_bits(((n + 127) << 23) as u32);
    p * two_to(half) * two_to(power - half)
}

// Uses exp where that keeps enough digits, and the Taylor polynomial of degree 11 near 0. Both are computed, so
// that loops vectorise.
#[inline(always)]
fn tanh_f32(x: f32) -> f32 {
    let far = 1.0 - 2.0 / (exp_f32(x + x) + 1.0);
    let square = x * x;
    let p = square.mul_add(-1382.0 / 155_925.0, 62.0 / 2835.0);
    let p = p.mul_add(square, -17.0 / 315.0);
    let p = p.mul_add(square, 2.0 / 15.0);
    let p = p.mul_add(square, -1.0 / 3.0);
    let near = (x * square).mul_add(p, x);
    if square < 0.16 { near } else { far }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tanh_keeps_its_digits_near_zero_and_far() {
        for i in -200_000..=200_000 {
            let x = (i as f32 / 10_000.0).powi(3) / 100.0;
            let exact = f64::from(x).tanh();
            assert!(
                (f64::from(tanh_f32(x)) - exact).abs() <= exact.abs() * 5e-7,
                "tanh({x})"
            );
        }
        assert_eq!(
            (tanh_f32(f32::INFINITY), tanh_f32(f32::NEG_INFINITY)),
            (1.0, -1.0)
        );
        assert!(tanh_f32(f32::NAN).is_nan());
    }

    #[test]
    fn f16_widens_exactly() {
        for bits in 0..=u16::MAX {
            let (ours, half) = (
                widen_f16(f16::from_bits(bits)),
                f16::from_bits(bits).to_f32(),
            );
            assert!(
                ours.to_bits() == half.to_bits() || ours.is_nan() && half.is_nan(),
                "{bits:x}"
            );
        }
    }

    #[test]
    fn f16_rounds_as_half_does() {
        for bits in (0..u32::MAX).step_by(4_093) {
            let x = f32::from_bits(bits);
            assert_eq!(narrow_f16(x).to_bits(), f16::from_f32(x).to_bits(), "{x:e}");
        }
    }

    // Just above the middle of two neighbours: a conversion through f32 would land on the middle and round to
    // even.
    #[test]
    fn f64_rounds_once() {
        let middle = 1.0 + 2f64.powi(-8);
        assert_eq!(bf16::nearest(middle + 1e-12).to_f32(), 1.007_812_5);
        assert_eq!(bf16::nearest(middle).to_f32(), 1.0);
        let middle = -1.0 - 2f64.powi(-11);
        assert_eq!(f16::nearest(middle - 1e-12).to_f32(), -1.000_976_6);
        assert_eq!(f16::nearest(1e300).to_f32(), f32::INFINITY);
        assert!(f16::nearest(f64::NAN).is_nan());
    }

    #[test]
    fn exp_is_within_two_units_in_the_last_place() {
        for i in -100_000..=88_000 {
            let x = i as f32 / 1000.0;
            let exact = f64::from(x).exp();
            let error = (f64::from(exp_f32(x)) - exact).abs();
            assert!(
                error <= exact * 2.5e-7 + 2e-45,
                "exp({x}): {} against {exact}",
                exp_f32(x)
            );
        }
        assert_eq!(exp_f32(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp_f32(200.0), f32::INFINITY);
        assert!(exp_f32(f32::NAN).is_nan());
    }

    #[test]
    fn bf16_rounds_as_half_does() {
        for bits in (0..u32::MAX).step_by(65_521) {
            let x = f32::from_bits(bits);
            assert_eq!(narrow_bf16(x).to_bits(), bf16::from_f32(x).to_bits(), "{x}");
        }
    }
}
