//! Nesterov momentum, and a matrix over its norm.

use super::{
    block::split_blocks,
    dispatch::{dispatch, dispatch_accumulator},
    memory::{BLOCK, Shared},
    optimiser::factor,
};
use crate::{
    element::{Element, Real},
    pool::Pool,
};
use hal::{
    Result,
    kernel::{Momentum, MomentumTensor, UnitNorm},
};

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn momentum(args: &Momentum, pool: &Pool) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    let Some(factor) = (unsafe { factor(args.factor) }) else {
        return Ok(());
    };
    args.tensors.iter().try_for_each(|tensor| {
        dispatch_accumulator!("momentum", tensor.gradients.dtype, A => {
            // SAFETY: guaranteed by the caller; the type is the slices' own.
            unsafe { momentum_tensor::<A>(tensor, [factor, args.beta].map(A::of), pool) };
            Ok(())
        })
    })
}

/// # Safety
/// The slices of `tensor` are live, of this type, and nothing else uses them.
unsafe fn momentum_tensor<A: Real>(tensor: &MomentumTensor, [factor, beta]: [A; 2], pool: &Pool) {
    // SAFETY: guaranteed by the caller.
    let [gradients, momentum] = unsafe { Shared::<A>::all([tensor.gradients, tensor.momentum]) };
    split_blocks(
        pool,
        gradients.len(),
        #[inline(always)]
        |start, len| {
            let mut g = gradients.load::<A>(start, len);
            let mut m = momentum.load::<A>(start, len);
            for i in 0..BLOCK {
                let gradient = factor * g[i];
                m[i] = gradient + beta * (m[i] - gradient);
                g[i] = gradient + beta * (m[i] - gradient);
            }
            gradients.store(start, len, g);
            momentum.store(start, len, m);
        },
    );
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn unit_norm(args: &UnitNorm, pool: &Pool) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    let squares = unsafe { Shared::<f64>::new(args.sum_squares) }.get(0);
    let norm = squares.sqrt() + args.epsilon;
    dispatch!("unit_norm", args.out.dtype, T => {
        // SAFETY: guaranteed by the caller; the types are the slices' own.
        unsafe { divide::<T>(args, norm, pool) };
        Ok(())
    })
}

/// # Safety
/// The slices are live, of this type and its accumulator, and nothing else uses `out`.
unsafe fn divide<T: Element>(args: &UnitNorm, norm: f64, pool: &Pool) {
    // SAFETY: guaranteed by the caller.
    let (x, out) = unsafe { (Shared::<T::Acc>::new(args.x), Shared::<T>::new(args.out)) };
    // The norm itself may lie beyond the range of f32.
    let factor = T::Acc::of(1.0 / norm);
    split_blocks(
        pool,
        x.len(),
        #[inline(always)]
        |start, len| {
            let mut block = x.load::<T::Acc>(start, len);
            for i in 0..BLOCK {
                block[i] *= factor;
            }
            out.store(start, len, block);
        },
    );
}
