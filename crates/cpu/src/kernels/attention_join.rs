//! Joins the attention of two blocks of keys.

use super::{
    block::{blocks, grain_of_rows, split},
    dispatch::dispatch,
    memory::Shared,
};
use crate::{
    element::{Element, Real},
    pool::Pool,
};
use hal::{Result, kernel::AttentionJoin};

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn join(args: &AttentionJoin, pool: &Pool) -> Result<()> {
    dispatch!("attention_join", args.block.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slice's own.
        let block = unsafe { Shared::<T>::new(args.block) };
        let accumulated = [args.out, args.log_sum_exp, args.block_log_sum_exp, args.joined];
        // SAFETY: guaranteed by the caller, which passes these in the accumulator type.
        let [out, first, second, joined] = unsafe { Shared::all(accumulated) };
        join_tokens(args, (out, block), [first, second, joined], pool);
        Ok(())
    })
}

fn join_tokens<T: Element>(
    args: &AttentionJoin,
    (out, block): (Shared<T::Acc>, Shared<T>),
    [first, second, joined]: [Shared<T::Acc>; 3],
    pool: &Pool,
) {
    let &AttentionJoin {
        sequences,
        queries,
        heads,
        head_size,
        ..
    } = args;
    split(
        pool,
        sequences * queries,
        grain_of_rows(heads * head_size),
        #[inline(always)]
        |tokens| {
            for token in tokens {
                let (sequence, query) = (token / queries, token % queries);
                for head in 0..heads {
                    let at = (sequence * heads + head) * queries + query;
                    let (shares, sum) = shares(first.get(at), second.get(at));
                    joined.set(at, sum);
                    let start = (token * heads + head) * head_size;
                    join_head(
                        out.sub(start, head_size),
                        block.sub(start, head_size),
                        shares,
                    );
                }
            }
        },
    );
}

/// The shares of two sums in their total, and its logarithm, from their logarithms.
#[inline(always)]
fn shares<A: Real>(first: A, second: A) -> ([A; 2], A) {
    let largest = first.max(second);
    // Neither block has a key for the query, and a difference of infinities is not a number.
    if largest == A::LOWEST {
        return ([A::ONE, A::ZERO], largest);
    }
    let sums = [(first - largest).exp(), (second - largest).exp()];
    let total = sums[0] + sums[1];
    (sums.map(|sum| sum / total), largest + total.ln())
}

#[inline(always)]
fn join_head<T: Element>(out: Shared<T::Acc>, block: Shared<T>, [first, second]: [T::Acc; 2]) {
    blocks(
        0..out.len(),
        #[inline(always)]
        |e, len| {
            let (mut sum, other) = (out.load::<T::Acc>(e, len), block.load::<T::Acc>(e, len));
            for i in 0..sum.len() {
                sum[i] = first * sum[i] + second * other[i];
            }
            out.store(e, len, sum);
        },
    );
}
