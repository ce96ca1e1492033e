//! AdamW with moments that are kept as 8-bit codes.

use super::{
    block::{GRAIN, blocks, split},
    coder::Coder,
    dispatch::{dispatch, dispatch_accumulator},
    memory::{BLOCK, Shared},
    optimiser::{MomentNumbers, StepNumbers, factor, update_tensors, write_compute},
};
use crate::{
    element::{Element, Real},
    pool::Pool,
};
use hal::{
    RawSlice, Result,
    codes::{self, BlockPlace, Codes},
    kernel::{CodedAdamW, CodedAdamWTensor, CodedScales, CodedScalesTensor},
};
use std::ops::Range;

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn coded_scales(args: &CodedScales, pool: &Pool) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    let factor = unsafe { factor(args.factor) };
    args.tensors.iter().try_for_each(|tensor| {
        dispatch_accumulator!("coded_scales", tensor.gradients.dtype, A => {
            // SAFETY: guaranteed by the caller; the type is the slice's own.
            unsafe { scales_of_tensor::<A>(args, tensor, factor, pool) };
            Ok(())
        })
    })
}

/// # Safety
/// The slices of `tensor` are live, of this type or bytes, and nothing else uses those that are updated.
unsafe fn scales_of_tensor<A: Real>(
    args: &CodedScales,
    tensor: &CodedScalesTensor,
    factor: Option<f64>,
    pool: &Pool,
) {
    // SAFETY: guaranteed by the caller.
    let next = unsafe { Shared::<A>::all(tensor.next) };
    match factor {
        Some(factor) => {
            let numbers = MomentNumbers::new([args.beta1, args.beta2], factor);
            let CodedScalesTensor {
                gradients,
                codes,
                scales,
                place,
                ..
            } = *tensor;
            // SAFETY: guaranteed by the caller.
            let moments = unsafe { Moments::new(numbers, gradients, codes, scales) };
            largest(&moments, next, place, pool);
        }
        None => {
            // SAFETY: guaranteed by the caller.
            let old = unsafe { Shared::<A>::all(tensor.scales) };
            for block in tensor.place.blocks(tensor.gradients.len) {
                (0..2).for_each(|of| next[of].set(block, old[of].get(block)));
            }
        }
    }
}

fn largest<A: Real>(moments: &Moments<A>, next: [Shared<A>; 2], place: BlockPlace, pool: &Pool) {
    each_block(
        pool,
        (place, moments.gradients.len()),
        #[inline(always)]
        |block, elements| {
            let scales = moments.scales_of(block);
            let mut most = [[A::ZERO; BLOCK]; 2];
            blocks(
                elements,
                #[inline(always)]
                |start, len| {
                    let (m, v) = moments.updated(scales, start, len);
                    for i in 0..BLOCK {
                        most[0][i] = most[0][i].max(m[i].max(-m[i]));
                        most[1][i] = most[1][i].max(v[i]);
                    }
                },
            );
            for of in 0..2 {
                let mut all = A::ZERO;
                for i in 0..BLOCK {
                    all = all.max(most[of][i]);
                }
                next[of].set(block, all);
            }
        },
    );
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn coded_adamw(args: &CodedAdamW, pool: &Pool) -> Result<()> {
    update_tensors!("coded_adamw", coded_adamw_tensor, args, pool)
}

/// # Safety
/// The slices of `tensor` are live, of these types or bytes, and nothing else uses those that are updated.
unsafe fn coded_adamw_tensor<A: Real, C: Element>(
    args: &CodedAdamW,
    tensor: &CodedAdamWTensor,
    factor: f64,
    pool: &Pool,
) {
    let betas = [args.beta1, args.beta2];
    let CodedAdamWTensor {
        gradients,
        codes,
        scales,
        place,
        ..
    } = *tensor;
    // SAFETY: guaranteed by the caller.
    let moments =
        unsafe { Moments::new(MomentNumbers::new(betas, factor), gradients, codes, scales) };
    // SAFETY: guaranteed by the caller.
    let next = unsafe { Shared::<A>::all(tensor.next) };
    // SAFETY: guaranteed by the caller.
    let weights = unsafe { Shared::<A>::new(tensor.weights) };
    // SAFETY: guaranteed by the caller.
    let compute = unsafe { Shared::<C>::optional(tensor.compute) };
    let numbers = StepNumbers::new(betas, args.step, args.rate, args.epsilon);
    let numbers = numbers.decayed(args.rate * tensor.weight_decay);
    each_block(
        pool,
        (place, weights.len()),
        #[inline(always)]
        |block, elements| {
            let scales = moments.scales_of(block);
            let next = [next[0].get(block), next[1].get(block)];
            blocks(
                elements,
                #[inline(always)]
                |start, len| {
                    let mut w = weights.load::<A>(start, len);
                    let (m, v) = moments.updated(scales, start, len);
                    for i in 0..BLOCK {
                        w[i] = numbers.update(w[i], m[i], v[i]);
                    }
                    weights.store(start, len, w);
                    write_compute(compute, weights, start, len);
                    moments.store((m, v), next, start, len);
                },
            );
        },
    );
}

/// The moments of a tensor, and how they follow its gradients.
struct Moments<A> {
    numbers: MomentNumbers<A>,
    gradients: Shared<A>,
    codes: [Shared<u8>; 2],
    scales: [Shared<A>; 2],
    coders: [Coder<A>; 2],
}

impl<A: Real> Moments<A> {
    /// # Safety
    /// The slices are live, of this type or bytes, and each block of them is used by one thread.
    unsafe fn new(
        numbers: MomentNumbers<A>,
        gradients: RawSlice,
        codes: [RawSlice; 2],
        scales: [RawSlice; 2],
    ) -> Moments<A> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            Moments {
                numbers,
                gradients: Shared::new(gradients),
                codes: Shared::all(codes),
                scales: Shared::all(scales),
                coders: [Codes::Signed, Codes::Unsigned].map(Coder::new),
            }
        }
    }

    #[inline(always)]
    fn scales_of(&self, block: usize) -> [A; 2] {
        [self.scales[0].get(block), self.scales[1].get(block)]
    }

    /// The new moments of `len` elements from `start` on; those of the rest of the block are 0.
    #[inline(always)]
    fn updated(&self, scales: [A; 2], start: usize, len: usize) -> ([A; BLOCK], [A; BLOCK]) {
        let gradients = self.gradients.load::<A>(start, len);
        let mut m = self.coders[0].load(self.codes[0], scales[0], start, len);
        let mut v = self.coders[1].load(self.codes[1], scales[1], start, len);
        for i in 0..BLOCK {
            (m[i], v[i]) = self.numbers.update(gradients[i], m[i], v[i]);
        }
        (m, v)
    }

    /// Replaces the codes of `len` elements from `start` on.
    #[inline(always)]
    fn store(&self, (m, v): ([A; BLOCK], [A; BLOCK]), scales: [A; 2], start: usize, len: usize) {
        let first = self.coders[0].signed(m, scales[0]);
        let second = self.coders[1].unsigned(v, scales[1]);
        self.codes[0].store_bytes(start, len, first);
        self.codes[1].store_bytes(start, len, second);
    }
}

/// Runs `body(block, elements)` on the blocks that `len` elements touch, divided among the threads. As for
/// [`split`], all of it must be `#[inline(always)]`.
#[inline(always)]
fn each_block(
    pool: &Pool,
    (place, len): (BlockPlace, usize),
    body: impl Fn(usize, Range<usize>) + Sync,
) {
    let touched = place.blocks(len);
    split(
        pool,
        touched.len(),
        GRAIN / codes::BLOCK,
        #[inline(always)]
        |range| {
            for block in touched.start + range.start..touched.start + range.end {
                body(block, place.elements(block, len));
            }
        },
    );
}
