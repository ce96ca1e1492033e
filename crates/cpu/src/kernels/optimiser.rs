//! AdamW and stochastic gradient descent.

use super::{
    block::split_blocks,
    dispatch::{dispatch, dispatch_accumulator},
    memory::{BLOCK, Shared},
};
use crate::{
    element::{Element, Real},
    pool::Pool,
};
use hal::{
    RawSlice, Result,
    kernel::{AdamW, AdamWTensor, Sgd, SgdTensor},
};

/// The factor of all gradients; `None` if the update is to be skipped.
///
/// # Safety
/// `factor` is one live f64 that nothing writes to.
pub(super) unsafe fn factor(factor: RawSlice) -> Option<f64> {
    // SAFETY: guaranteed by the caller.
    let factor = unsafe { Shared::<f64>::new(factor) }.get(0);
    (!factor.is_nan()).then_some(factor)
}

/// The update of each tensor, `$update::<A, C>(args, tensor, factor, pool)`, for the types of its weights and of their
/// copy; nothing if the factor is NaN.
macro_rules! update_tensors {
    ($name:literal, $update:ident, $args:expr, $pool:expr) => {{
        // SAFETY: guaranteed by the caller.
        let Some(factor) = (unsafe { $crate::kernels::optimiser::factor($args.factor) }) else {
            return Ok(());
        };
        $args.tensors.iter().try_for_each(|tensor| {
            let weights = tensor.weights.dtype;
            let compute = tensor.compute.map_or(weights, |compute| compute.dtype);
            dispatch_accumulator!($name, weights, A => dispatch!($name, compute, C => {
                // SAFETY: guaranteed by the caller; the types are the slices' own.
                unsafe { $update::<A, C>($args, tensor, factor, $pool) };
                Ok(())
            }))
        })
    }};
}
pub(super) use update_tensors;

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn adamw(args: &AdamW, pool: &Pool) -> Result<()> {
    update_tensors!("adamw", adamw_tensor, args, pool)
}

/// # Safety
/// The slices of `tensor` are live, of these types, and nothing else uses those that are updated.
unsafe fn adamw_tensor<A: Real, C: Element>(
    args: &AdamW,
    tensor: &AdamWTensor,
    factor: f64,
    pool: &Pool,
) {
    // SAFETY: guaranteed by the caller.
    let state = unsafe {
        Shared::<A>::all([
            tensor.weights,
            tensor.gradients,
            tensor.first,
            tensor.second,
        ])
    };
    // SAFETY: guaranteed by the caller.
    let compute = unsafe { Shared::<C>::optional(tensor.compute) };
    let betas = [args.beta1, args.beta2];
    let numbers = StepNumbers::new(betas, args.step, args.rate, args.epsilon);
    adamw_blocks(
        MomentNumbers::new(betas, factor),
        numbers.decayed(args.rate * tensor.weight_decay),
        state,
        compute,
        pool,
    );
}

/// How moments follow a gradient: values shared by all elements of a tensor, rounded once.
#[derive(Clone, Copy)]
pub(super) struct MomentNumbers<A> {
    factor: A,
    one_minus_beta1: A,
    beta2: A,
    one_minus_beta2: A,
}

impl<A: Real> MomentNumbers<A> {
    pub(super) fn new([beta1, beta2]: [f64; 2], factor: f64) -> Self {
        MomentNumbers {
            factor: A::of(factor),
            one_minus_beta1: A::of(1.0 - beta1),
            beta2: A::of(beta2),
            one_minus_beta2: A::of(1.0 - beta2),
        }
    }

    /// New first and second moment, in PyTorch's order of operations.
    #[inline(always)]
    pub(super) fn update(self, gradient: A, first: A, second: A) -> (A, A) {
        let gradient = self.factor * gradient;
        let first = first + self.one_minus_beta1 * (gradient - first);
        let second = self.beta2 * second + self.one_minus_beta2 * gradient * gradient;
        (first, second)
    }
}

/// How a weight follows its moments: values shared by all elements of a tensor, rounded once.
#[derive(Clone, Copy)]
pub(super) struct StepNumbers<A> {
    keep: A,
    root_of_correction2: A,
    epsilon: A,
    step_size: A,
}

impl<A: Real> StepNumbers<A> {
    pub(super) fn new([beta1, beta2]: [f64; 2], step: u64, rate: f64, epsilon: f64) -> Self {
        let correction = |beta: f64| 1.0 - beta.powf(step as f64);
        StepNumbers {
            keep: A::ONE,
            root_of_correction2: A::of(correction(beta2).sqrt()),
            epsilon: A::of(epsilon),
            step_size: A::of(rate / correction(beta1)),
        }
    }

    /// The same numbers, with a weight decay that removes this share of each weight per step.
    pub(super) fn decayed(self, share: f64) -> Self {
        StepNumbers {
            keep: A::of(1.0 - share),
            ..self
        }
    }

    /// New weight, in PyTorch's order of operations.
    #[inline(always)]
    pub(super) fn update(self, weight: A, first: A, second: A) -> A {
        let root = second.sqrt() / self.root_of_correction2 + self.epsilon;
        self.keep * weight - self.step_size * (first / root)
    }
}

fn adamw_blocks<A: Real, C: Element>(
    moments: MomentNumbers<A>,
    numbers: StepNumbers<A>,
    [weights, gradients, first, second]: [Shared<A>; 4],
    compute: Option<Shared<C>>,
    pool: &Pool,
) {
    split_blocks(
        pool,
        weights.len(),
        #[inline(always)]
        |start, len| {
            let (mut w, g) = (
                weights.load::<A>(start, len),
                gradients.load::<A>(start, len),
            );
            let (mut m, mut v) = (first.load::<A>(start, len), second.load::<A>(start, len));
            for i in 0..BLOCK {
                (m[i], v[i]) = moments.update(g[i], m[i], v[i]);
                w[i] = numbers.update(w[i], m[i], v[i]);
            }
            weights.store(start, len, w);
            first.store(start, len, m);
            second.store(start, len, v);
            write_compute(compute, weights, start, len);
        },
    );
}

/// Copies new weights to their compute type, if they have one.
#[inline(always)]
pub(super) fn write_compute<A: Real, C: Element>(
    compute: Option<Shared<C>>,
    weights: Shared<A>,
    start: usize,
    len: usize,
) {
    if let Some(compute) = compute {
        compute.convert(weights, start, len);
    }
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn sgd(args: &Sgd, pool: &Pool) -> Result<()> {
    update_tensors!("sgd", sgd_tensor, args, pool)
}

/// # Safety
/// The slices of `tensor` are live, of these types, and nothing else uses those that are updated.
unsafe fn sgd_tensor<A: Real, C: Element>(
    args: &Sgd,
    tensor: &SgdTensor,
    factor: f64,
    pool: &Pool,
) {
    // SAFETY: guaranteed by the caller.
    let state = unsafe { Shared::<A>::all([tensor.weights, tensor.gradients]) };
    // SAFETY: guaranteed by the caller.
    let (velocity, compute) = unsafe {
        (
            Shared::<A>::optional(tensor.velocity),
            Shared::<C>::optional(tensor.compute),
        )
    };
    let numbers = [factor, tensor.weight_decay, args.momentum, args.rate].map(A::of);
    sgd_blocks(numbers, state, velocity, compute, pool);
}

fn sgd_blocks<A: Real, C: Element>(
    [factor, decay, momentum, rate]: [A; 4],
    [weights, gradients]: [Shared<A>; 2],
    velocity: Option<Shared<A>>,
    compute: Option<Shared<C>>,
    pool: &Pool,
) {
    split_blocks(
        pool,
        weights.len(),
        #[inline(always)]
        |start, len| {
            let (mut w, mut u) = (
                weights.load::<A>(start, len),
                gradients.load::<A>(start, len),
            );
            for i in 0..BLOCK {
                u[i] = factor * u[i] + decay * w[i];
            }
            if let Some(velocity) = velocity {
                let old = velocity.load::<A>(start, len);
                for i in 0..BLOCK {
                    u[i] += momentum * old[i];
                }
                velocity.store(start, len, u);
            }
            for i in 0..BLOCK {
                w[i] = w[i] - rate * u[i];
            }
            weights.store(start, len, w);
            write_compute(compute, weights, start, len);
        },
    );
}
