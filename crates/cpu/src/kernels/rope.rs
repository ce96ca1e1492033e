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
        // SAFETY: guaranteed by the caller, which passes places as u32.
        let places = unsafe { Shared::<u32>::optional(args.places) };
        turn_rows(x, out, places, args, pool);
        Ok(())
    })
}

fn turn_rows<T: Element>(
    x: Shared<T>,
    out: Shared<T>,
    places: Option<Shared<u32>>,
    args: &Rope,
    pool: &Pool,
) {
    let (half, columns) = (args.turned / 2, args.heads * args.head_size);
    let turns = Turns::new(args, places);
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
                let place = match places {
                    Some(places) => places.get(row) as usize,
                    None => args.first_position + row % args.sequence,
                };
                turns.write(place, cosines, sines);
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

/// Cosine and sine of every angle `position * frequency`, as products of those of two parts of the position, in f64.
///
/// Rotating by position p equals rotating by p - p % 64 and by p % 64. So 65 + sequence / 64 rows of sines
/// suffice, where a sine for each position would cost more than the rotation itself. Few rows take their own sines of the same parts.
struct Turns {
    frequencies: Vec<f64>,
    tables: Option<Tables>,
}

/// Rows of cosines and sines.
struct Tables {
    fine: Vec<(f64, f64)>,
    coarse: Vec<(f64, f64)>,
    // The first block of FINE positions that `coarse` holds.
    first_block: usize,
}

impl Turns {
    fn new(args: &Rope, places: Option<Shared<u32>>) -> Turns {
        let half = args.turned / 2;
        let sign = if args.backward { -1.0 } else { 1.0 };
        let frequency = |e: usize| sign * args.frequencies.of_pair(e, args.turned);
        let frequencies: Vec<f64> = (0..half).map(frequency).collect();
        let positions = match places {
            None => args.first_position..args.first_position + args.sequence.min(args.rows),
            Some(places) => {
                let all = || (0..args.rows).map(|row| places.get(row) as usize);
                all().min().unwrap_or(0)..all().max().map_or(0, |last| last + 1)
            }
        };
        let blocks = positions.start / FINE..positions.end.div_ceil(FINE);
        let fine = FINE.min(positions.end);
        let tables = (2 * args.rows > fine + blocks.len()).then(|| {
            let row = |position: usize| frequencies.iter().map(move |one| turn(position, *one));
            Tables {
                fine: (0..fine).flat_map(row).collect(),
                first_block: blocks.start,
                coarse: blocks.flat_map(|block| row(block * FINE)).collect(),
            }
        });
        Turns {
            frequencies,
            tables,
        }
    }

    #[inline(always)]
    fn write<A: Real>(&self, position: usize, cosines: Shared<A>, sines: Shared<A>) {
        let half = self.frequencies.len();
        let set = |e: usize, (c, s): (f64, f64), (cos, sin): (f64, f64)| {
            cosines.set(e, A::of(c * cos - s * sin));
            sines.set(e, A::of(s * cos + c * sin));
        };
        match &self.tables {
            Some(tables) => {
                let row = |index: usize| index * half..(index + 1) * half;
                let coarse = &tables.coarse[row(position / FINE - tables.first_block)];
                let fine = &tables.fine[row(position % FINE)];
                (0..half).for_each(|e| set(e, coarse[e], fine[e]));
            }
            None => {
                let parts = [position / FINE * FINE, position % FINE];
                for (e, frequency) in self.frequencies.iter().enumerate() {
                    let [coarse, fine] = parts.map(|part| turn(part, *frequency));
                    set(e, coarse, fine);
                }
            }
        }
    }
}

fn turn(position: usize, frequency: f64) -> (f64, f64) {
    let (sine, cosine) = (position as f64 * frequency).sin_cos();
    (cosine, sine)
}
