//! Lion.

use super::{
    block::split_blocks,
    dispatch::{dispatch, dispatch_accumulator},
    memory::{BLOCK, Shared},
    optimiser::{update_tensors, write_compute},
};
use crate::{
    element::{Element, Real},
    pool::Pool,
};
use hal::{
    Result,
    kernel::{Lion, LionTensor},
};

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn lion(args: &Lion, pool: &Pool) -> Result<()> {
    update_tensors!("lion", lion_tensor, args, pool)
}

/// # Safety
/// The slices of `tensor` are live, of these types, and nothing else uses those that are updated.
unsafe fn lion_tensor<A: Real, C: Element>(
    args: &Lion,
    tensor: &LionTensor,
    factor: f64,
    pool: &Pool,
) {
    // SAFETY: guaranteed by the caller.
    let state = unsafe { Shared::<A>::all([tensor.weights, tensor.gradients, tensor.momentum]) };
    // SAFETY: guaranteed by the caller.
    let compute = unsafe { Shared::<C>::optional(tensor.compute) };
    let numbers = LionNumbers {
        factor: A::of(factor),
        keep: A::of(1.0 - args.rate * tensor.weight_decay),
        one_minus_beta1: A::of(1.0 - args.beta1),
        one_minus_beta2: A::of(1.0 - args.beta2),
        rate: A::of(args.rate),
    };
    lion_blocks(numbers, state, compute, pool);
}

/// Values shared by all elements of a tensor, rounded once.
#[derive(Clone, Copy)]
struct LionNumbers<A> {
    factor: A,
    keep: A,
    one_minus_beta1: A,
    one_minus_beta2: A,
    rate: A,
}

impl<A: Real> LionNumbers<A> {
    /// New weight and momentum.
    #[inline(always)]
    fn update(self, weight: A, gradient: A, momentum: A) -> (A, A) {
        let towards = self.factor * gradient - momentum;
        let direction = momentum + self.one_minus_beta1 * towards;
        // Two selects, which vectorise; neither holds for 0.
        let above = if direction > A::ZERO {
            self.rate
        } else {
            A::ZERO
        };
        let below = if direction < A::ZERO {
            self.rate
        } else {
            A::ZERO
        };
        (
            self.keep * weight - (above - below),
            momentum + self.one_minus_beta2 * towards,
        )
    }
}

fn lion_blocks<A: Real, C: Element>(
    numbers: LionNumbers<A>,
    [weights, gradients, momentum]: [Shared<A>; 3],
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
            let mut m = momentum.load::<A>(start, len);
            for i in 0..BLOCK {
                (w[i], m[i]) = numbers.update(w[i], g[i], m[i]);
            }
            weights.store(start, len, w);
            momentum.store(start, len, m);
            write_compute(compute, weights, start, len);
        },
    );
}
