//! Activation functions and their derivatives.

use super::{block::map, dispatch::dispatch, gauss, memory::Shared};
use crate::{
    element::{Element, Real},
    pool::Pool,
};
use hal::{
    Result,
    kernel::{Swiglu, SwigluBackward, Unary, UnaryBackward, UnaryOp},
};

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn unary(args: &Unary, pool: &Pool) -> Result<()> {
    dispatch!("unary", args.x.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        let [x, out] = unsafe { Shared::<T>::all([args.x, args.out]) };
        apply(args.op, x, out, pool);
        Ok(())
    })
}

// Generic, because on a concrete f32 `tanh` and `exp` would be the standard library's, which do not vectorise.
fn apply<T: Element>(op: UnaryOp, x: Shared<T>, out: Shared<T>, pool: &Pool) {
    match op {
        UnaryOp::Gelu => map(
            pool,
            [x],
            [out],
            #[inline(always)]
            |[x]| [gelu(x)],
        ),
        UnaryOp::GeluErf => map(
            pool,
            [x],
            [out],
            #[inline(always)]
            |[x]| [gauss::gelu(x)],
        ),
        UnaryOp::Silu => map(
            pool,
            [x],
            [out],
            #[inline(always)]
            |[x]| [x * x.sigmoid()],
        ),
        UnaryOp::Relu => map(
            pool,
            [x],
            [out],
            #[inline(always)]
            |[x]| [relu(x)],
        ),
        UnaryOp::Tanh => map(
            pool,
            [x],
            [out],
            #[inline(always)]
            |[x]| [x.tanh()],
        ),
        UnaryOp::Sigmoid => map(
            pool,
            [x],
            [out],
            #[inline(always)]
            |[x]| [x.sigmoid()],
        ),
        UnaryOp::Exp => map(
            pool,
            [x],
            [out],
            #[inline(always)]
            |[x]| [x.exp()],
        ),
        UnaryOp::Log => map(
            pool,
            [x],
            [out],
            #[inline(always)]
            |[x]| [x.ln()],
        ),
        UnaryOp::Sqrt => map(
            pool,
            [x],
            [out],
            #[inline(always)]
            |[x]| [x.sqrt()],
        ),
    }
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn unary_backward(args: &UnaryBackward, pool: &Pool) -> Result<()> {
    dispatch!("unary_backward", args.x.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        let [x, d_out, d_x] = unsafe { Shared::<T>::all([args.x, args.d_out, args.d_x]) };
        apply_backward(args.op, [x, d_out], d_x, pool);
        Ok(())
    })
}

fn apply_backward<T: Element>(op: UnaryOp, inputs: [Shared<T>; 2], d_x: Shared<T>, pool: &Pool) {
    match op {
        UnaryOp::Gelu => map(
            pool,
            inputs,
            [d_x],
            #[inline(always)]
            |[x, d]| [d * gelu_slope(x)],
        ),
        UnaryOp::GeluErf => map(
            pool,
            inputs,
            [d_x],
            #[inline(always)]
            |[x, d]| [d * gauss::gelu_slope(x)],
        ),
        UnaryOp::Silu => map(
            pool,
            inputs,
            [d_x],
            #[inline(always)]
            |[x, d]| [d * silu_slope(x)],
        ),
        UnaryOp::Relu => map(
            pool,
            inputs,
            [d_x],
            #[inline(always)]
            |[x, d]| [relu_gradient(x, d)],
        ),
        UnaryOp::Tanh => map(
            pool,
            inputs,
            [d_x],
            #[inline(always)]
            |[x, d]| [d * tanh_slope(x)],
        ),
        UnaryOp::Sigmoid => map(
            pool,
            inputs,
            [d_x],
            #[inline(always)]
            |[x, d]| [d * sigmoid_slope(x)],
        ),
        UnaryOp::Exp => map(
            pool,
            inputs,
            [d_x],
            #[inline(always)]
            |[x, d]| [d * x.exp()],
        ),
        UnaryOp::Log => map(
            pool,
            inputs,
            [d_x],
            #[inline(always)]
            |[x, d]| [d / x],
        ),
        UnaryOp::Sqrt => map(
            pool,
            inputs,
            [d_x],
            #[inline(always)]
            |[x, d]| [d / (x.sqrt() + x.sqrt())],
        ),
    }
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn swiglu(args: &Swiglu, pool: &Pool) -> Result<()> {
    dispatch!("swiglu", args.gate.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        let [gate, up, out] = unsafe { Shared::<T>::all([args.gate, args.up, args.out]) };
        map(pool, [gate, up], [out], #[inline(always)] |[gate, up]| [gate * gate.sigmoid() * up]);
        Ok(())
    })
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn swiglu_backward(args: &SwigluBackward, pool: &Pool) -> Result<()> {
    dispatch!("swiglu_backward", args.gate.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        let [gate, up, d_out, d_gate, d_up] =
            unsafe { Shared::<T>::all([args.gate, args.up, args.d_out, args.d_gate, args.d_up]) };
        map(pool, [gate, up, d_out], [d_gate, d_up], #[inline(always)] |[gate, up, d]| {
            [d * up * silu_slope(gate), d * gate * gate.sigmoid()]
        });
        Ok(())
    })
}

// The tanh approximation reads 0.5 x (1 + tanh u), u = sqrt(2 / pi) (x + CUBIC x^3). That is x * sigmoid(2 u), which keeps
// its digits for negative x, where 1 + tanh u cancels.
const CUBIC: f64 = 0.044_715;
const TWO_ROOT: f64 = 2.0 * 0.797_884_560_802_865_4;

#[inline(always)]
fn gelu<A: Real>(x: A) -> A {
    let u2 = A::of(TWO_ROOT) * x * (x * x).mul_add(A::of(CUBIC), A::ONE);
    x * u2.sigmoid()
}

#[inline(always)]
fn gelu_slope<A: Real>(x: A) -> A {
    let square = x * x;
    let s = (A::of(TWO_ROOT) * x * square.mul_add(A::of(CUBIC), A::ONE)).sigmoid();
    let u2_slope = A::of(TWO_ROOT) * square.mul_add(A::of(3.0 * CUBIC), A::ONE);
    (x * s * (A::ONE - s)).mul_add(u2_slope, s)
}

#[inline(always)]
fn silu_slope<A: Real>(x: A) -> A {
    let s = x.sigmoid();
    s * x.mul_add(A::ONE - s, A::ONE)
}

#[inline(always)]
fn tanh_slope<A: Real>(x: A) -> A {
    let t = x.tanh();
    A::ONE - t * t
}

#[inline(always)]
fn sigmoid_slope<A: Real>(x: A) -> A {
    let s = x.sigmoid();
    s * (A::ONE - s)
}

// A NaN stays NaN, because an overflow must not be hidden.
#[inline(always)]
fn relu<A: Real>(x: A) -> A {
    if x < A::ZERO { A::ZERO } else { x }
}

#[inline(always)]
fn relu_gradient<A: Real>(x: A, d_out: A) -> A {
    if x <= A::ZERO { A::ZERO } else { d_out }
}
