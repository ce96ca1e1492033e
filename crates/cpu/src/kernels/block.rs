//! The loop of every elementwise kernel.

use super::{
    memory::{BLOCK, Shared},
    simd::vectorise,
};
use crate::{
    element::{Element, Real},
    pool::Pool,
};
use std::ops::Range;

/// Number of elements that justify an additional thread.
pub(crate) const GRAIN: usize = 16_384;

/// The fewest rows of `columns` elements that justify an additional thread.
pub(crate) fn grain_of_rows(columns: usize) -> usize {
    GRAIN / columns.max(1) + 1
}

/// Runs `work` on parts of `0..len`, one per thread, each compiled for the processor's own vectors.
///
/// `work`, and everything it calls, must be `#[inline(always)]`.
#[inline(always)]
pub(crate) fn split(pool: &Pool, len: usize, grain: usize, work: impl Fn(Range<usize>) + Sync) {
    pool.split(len, grain, |range| {
        vectorise(
            #[inline(always)]
            || work(range),
        )
    });
}

/// Runs `body(start, len)` on `0..len` in blocks, divided among the threads. As for [`split`], all of it must be
/// `#[inline(always)]`.
#[inline(always)]
pub(crate) fn split_blocks(pool: &Pool, len: usize, body: impl Fn(usize, usize) + Sync) {
    split(
        pool,
        len,
        GRAIN,
        #[inline(always)]
        |range| {
            blocks(
                range,
                #[inline(always)]
                |start, len| body(start, len),
            )
        },
    );
}

/// Runs `body(start, len)` on `range` in blocks; only the last may be shorter.
#[inline(always)]
pub(crate) fn blocks(range: Range<usize>, mut body: impl FnMut(usize, usize)) {
    let whole = range.start + range.len() / BLOCK * BLOCK;
    let mut start = range.start;
    while start < whole {
        body(start, BLOCK);
        start += BLOCK;
    }
    if start < range.end {
        body(start, range.end - start);
    }
}

/// Computes `outputs[..][i] = f(inputs[..][i])` for every i; an output may share the memory of an input.
#[inline(always)]
pub(crate) fn map<T: Element, const I: usize, const O: usize>(
    pool: &Pool,
    inputs: [Shared<T>; I],
    outputs: [Shared<T>; O],
    f: impl Fn([T::Acc; I]) -> [T::Acc; O] + Sync,
) {
    split_blocks(
        pool,
        outputs[0].len(),
        #[inline(always)]
        |start, len| {
            let results = zip(
                load(&inputs, start, len),
                #[inline(always)]
                |values| f(values),
            );
            for o in 0..O {
                outputs[o].store(start, len, results[o]);
            }
        },
    );
}

// Plain loops from here on: the iterators and maps of arrays remain calls, compiled without vectors.

/// One block of every input.
#[inline(always)]
fn load<T: Element, const I: usize>(
    inputs: &[Shared<T>; I],
    start: usize,
    len: usize,
) -> [[T::Acc; BLOCK]; I] {
    let mut read = [[T::Acc::ZERO; BLOCK]; I];
    for i in 0..I {
        read[i] = inputs[i].load(start, len);
    }
    read
}

/// Applies `f` at every position of the blocks `read`.
#[inline(always)]
pub(crate) fn zip<A: Real, const I: usize, const O: usize>(
    read: [[A; BLOCK]; I],
    f: impl Fn([A; I]) -> [A; O],
) -> [[A; BLOCK]; O] {
    let mut results = [[A::ZERO; BLOCK]; O];
    for position in 0..BLOCK {
        let mut values = [A::ZERO; I];
        for i in 0..I {
            values[i] = read[i][position];
        }
        let values = f(values);
        for o in 0..O {
            results[o][position] = values[o];
        }
    }
    results
}
