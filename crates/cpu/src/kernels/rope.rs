//! Rotary position embedding.

use super::{
    block::{blocks, grain_of_rows, split},
    dispatch::dispatch,
    memory::Shared,
};
use crate::{
    element::{Element, Real},
    pool::Pool,
};
use hal::{Result, kernel::Rope};
use std::ops::Range;

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn rope(args: &Rope, pool: &Pool) -> Result<()> {
    dispatch!("rope", args.x.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        let [x, out] = unsafe { Shared::<T>::all([args.x, args.out]) };
        turn_rows(x, out, args, pool);
        Ok(())
    })
}

fn turn_rows<T: Element>(x: Shared<T>, out: Shared<T>, args: &Rope, pool: &Pool) {
    let (half, columns) = (args.turned / 2, args.heads * args.head_size);
    let turns = Turns::new(args);
    split(
        pool,
        args.rows,
        grain_of_rows(columns),
        #[inline(always)]
        |rows| {
            let mut cosines = vec![T::Acc::ZERO; half];
            let mut sines = cosines.clone();
            // SAFETY: the vector outlives the loop, and is this thread's own.
            let cosines = unsafe { Shared::of(&mut cosines) };
            // SAFETY: the vector outlives the loop, and is this thread's own.
            let sines = unsafe { Shared::of(&mut sines) };
            for row in rows {
                turns.write(args.first_position + row % args.sequence, cosines, sines);
                for head in 0..args.heads {
                    let start = row * columns + head * args.head_size;
                    turn_head(x, out, start, cosines, sines);
                    copy(x, out, start + args.turned..start + args.head_size);
                }
            }
        },
    );
}

#[inline(always)]
fn copy<T: Element>(x: Shared<T>, out: Shared<T>, elements: Range<usize>) {
    blocks(
        elements,
        #[inline(always)]
        |start, len| out.store(start, len, x.load::<T::Acc>(start, len)),
    );
}

/// Rotates the pairs (e, e + half) of the head that begins at `start`.
#[inline(always)]
fn turn_head<T: Element>(
    x: Shared<T>,
    out: Shared<T>,
    start: usize,
    cosines: Shared<T::Acc>,
    sines: Shared<T::Acc>,
) {
    let half = cosines.len();
    blocks(
        0..half,
        #[inline(always)]
        |e, len| {
            let (cos, sin) = (cosines.load::<T::Acc>(e, len), sines.load::<T::Acc>(e, len));
            let (mut a, mut b) = (
                x.load::<T::Acc>(start + e, len),
                x.load::<T::Acc>(start + half + e, len),
            );
            for i in 0..cos.len() {
                let (left, right) = (a[i], b[i]);
                a[i] = left * cos[i] - right * sin[i];
                b[i] = right * cos[i] + left * sin[i];
            }
            out.store(start + e, len, a);
            out.store(start + half + e, len, b);
        },
    );
}

const FINE: usize = 64;

/// Cosine and sine of every angle `position * frequency`, as products of two small tables in f64.
///
/// Rotating by position p equals rotating by p - p % 64 and by p % 64. So 65 + sequence / 64 rows of sines
/// suffice, where a sine for each position would cost more than the rotation itself.
struct Turns {
    half: usize,
    fine: Vec<(f64, f64)>,
    coarse: Vec<(f64, f64)>,
    // The first block of FINE positions that `coarse` holds.
    first_block: usize,
}

impl Turns {
    fn new(args: &Rope) -> Turns {
        let half = args.turned / 2;
        let sign = if args.backward { -1.0 } else { 1.0 };
        let frequency = |e: usize| sign * args.frequencies.of_pair(e, args.turned);
        let frequencies: Vec<f64> = (0..half).map(frequency).collect();
        let row = |position: usize| {
            frequencies
                .iter()
                .map(move |frequency| (position as f64 * frequency).sin_cos())
                .map(|(s, c)| (c, s))
        };
        let end = args.first_position + args.sequence.min(args.rows);
        let first_block = args.first_position / FINE;
        let fine = (0..FINE.min(end)).flat_map(row).collect();
        let coarse = (first_block..end.div_ceil(FINE))
            .flat_map(|block| row(block * FINE))
            .collect();
        Turns {
            half,
            fine,
            coarse,
            first_block,
        }
    }

    #[inline(always)]
    fn write<A: Real>(&self, position: usize, cosines: Shared<A>, sines: Shared<A>) {
        let row = |index: usize| index * self.half..(index + 1) * self.half;
        let coarse = &self.coarse[row(position / FINE - self.first_block)];
        let fine = &self.fine[row(position % FINE)];
        for e in 0..self.half {
            let ((c, s), (cos, sin)) = (coarse[e], fine[e]);
            cosines.set(e, A::of(c * cos - s * sin));
            sines.set(e, A::of(s * cos + c * sin));
        }
    }
}
