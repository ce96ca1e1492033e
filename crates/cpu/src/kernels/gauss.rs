//! The integral of the normal distribution, by which GELU is defined.

use crate::element::Real;
use std::f64::consts::FRAC_1_SQRT_2;

/// 1 / sqrt(2 pi).
const DENSITY: f64 = 0.398_942_280_401_432_7;

/// ln(erfc(z) exp(z^2) / t) for t = 2 / (2 + z), as a polynomial in 2 t - 1: the first 26 terms of its Chebyshev series, from the
/// constant term up. The largest error of erfc is 4e-16 for all z from 0 on.
///
/// # Source
/// The form is that of Press et al., Numerical Recipes (third edition), section 6.2.2; the series was computed with 60 digits.
const SERIES: [f64; 26] = [
    -0.671_794_084_056_692_2,
    0.672_643_223_977_656,
    0.047_343_306_841_863_525,
    -0.046_895_610_231_083_025,
    -0.009_872_689_364_099_222,
    0.008_824_938_553_738_764,
    0.001_758_933_507_402_803_2,
    -0.002_345_812_444_802_156,
    -0.000_146_246_287_421_284_06,
    0.000_673_678_269_706_983_1,
    -9.373_894_767_667_295e-05,
    -0.000_174_299_849_331_556_44,
    7.141_810_433_422_301e-05,
    3.173_310_599_377_061e-05,
    -3.023_784_054_007_137e-05,
    1.699_233_231_227_702e-07,
    8.662_535_397_475_538e-06,
    -3.007_645_434_410_669e-06,
    -1.409_445_991_433_531e-06,
    1.326_781_360_851_888_9e-06,
    -4.146_853_754_663_641e-08,
    -3.168_341_367_694_147e-07,
    7.745_572_408_758_512e-08,
    3.972_203_547_273_795e-08,
    -1.277_608_655_496_867_7e-08,
    -1.586_704_292_413_804_2e-09,
];

/// Half of erfc(|x| / sqrt 2): the share of the distribution beyond |x|. Without branches, so that loops vectorise.
#[inline(always)]
fn beyond<A: Real>(x: A) -> A {
    let size = if x < A::ZERO { -x } else { x };
    let z = size * A::of(FRAC_1_SQRT_2);
    let t = A::ONE / z.mul_add(A::of(0.5), A::ONE);
    let u = t.mul_add(A::of(2.0), -A::ONE);
    let mut power = A::of(SERIES[25]);
    for term in (0..25).rev() {
        power = power.mul_add(u, A::of(SERIES[term]));
    }
    A::of(0.5) * t * (power - z * z).exp()
}

/// The share of the distribution up to `x`.
#[inline(always)]
fn up_to<A: Real>(x: A) -> A {
    let beyond = beyond(x);
    if x < A::ZERO { beyond } else { A::ONE - beyond }
}

/// x times the share of the distribution up to x.
#[inline(always)]
pub(super) fn gelu<A: Real>(x: A) -> A {
    x * up_to(x)
}

/// The derivative of [`gelu`].
#[inline(always)]
pub(super) fn gelu_slope<A: Real>(x: A) -> A {
    let density = A::of(DENSITY) * (A::of(-0.5) * x * x).exp();
    x.mul_add(density, up_to(x))
}
