//! Keys and values to pages and back.

use super::{block::grain_of_rows, dispatch::dispatch, memory::Shared};
use crate::{element::Element, lanes::Lanes, pool::Pool};
use hal::{
    Result,
    kernel::{LoadPages, PageShape, StorePages, pages::PAGE_TOKENS},
};
use std::{any::TypeId, ops::Range};

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn store(args: &StorePages, pool: &Pool) -> Result<()> {
    dispatch!("store_pages", args.keys.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        let all = unsafe { Shared::<T>::all([args.keys, args.values, args.key_pages, args.value_pages]) };
        // SAFETY: guaranteed by the caller, which passes slots as u32.
        let slots = unsafe { Shared::<u32>::new(args.slots) };
        write(args.shape, (args.tokens, slots), all, pool);
        Ok(())
    })
}

// Threads share the columns, not the tokens, because a slot may occur twice.
fn write<T: Element<Acc: Lanes>>(
    shape: PageShape,
    (tokens, slots): (usize, Shared<u32>),
    [keys, values, key_pages, value_pages]: [Shared<T>; 4],
    pool: &Pool,
) {
    let width = shape.width();
    pool.split(width, grain_of_rows(tokens), |columns| {
        let count = columns.len();
        for Run { first, len, slot } in runs(shape, slots, 0..tokens) {
            let Some(slot) = slot else { continue };
            let from = first * width + columns.start..(first + len - 1) * width + columns.end;
            let panel = panel(width, slot, columns.clone(), len);
            // SAFETY: nothing writes what is read; of the pages, no other thread uses the memory of these columns.
            let (from, to) = unsafe { (keys.part(from), key_pages.part_mut(panel)) };
            transpose(from, width, [len, count], to, PAGE_TOKENS);
            for token in 0..len {
                let from = (first + token) * width + columns.start;
                let to = (slot + token) * width + columns.start;
                // SAFETY: as above.
                let (from, to) = unsafe {
                    (
                        values.part(from..from + count),
                        value_pages.part_mut(to..to + count),
                    )
                };
                to.copy_from_slice(from);
            }
        }
    });
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn load(args: &LoadPages, pool: &Pool) -> Result<()> {
    dispatch!("load_pages", args.keys.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        let all = unsafe { Shared::<T>::all([args.key_pages, args.value_pages, args.keys, args.values]) };
        // SAFETY: guaranteed by the caller, which passes slots as u32.
        let slots = unsafe { Shared::<u32>::new(args.slots) };
        read(args.shape, (args.tokens, slots), all, pool);
        Ok(())
    })
}

fn read<T: Element<Acc: Lanes>>(
    shape: PageShape,
    (tokens, slots): (usize, Shared<u32>),
    [key_pages, value_pages, keys, values]: [Shared<T>; 4],
    pool: &Pool,
) {
    let width = shape.width();
    pool.split(tokens, grain_of_rows(width), |tokens| {
        for Run { first, len, slot } in runs(shape, slots, tokens) {
            let own = first * width..(first + len) * width;
            // SAFETY: the tokens are this thread's.
            let (keys, values) = unsafe { (keys.part_mut(own.clone()), values.part_mut(own)) };
            let Some(slot) = slot else {
                keys.fill(T::zeroed());
                values.fill(T::zeroed());
                continue;
            };
            // SAFETY: nothing writes to the pages during the launch.
            let (of_keys, of_values) = unsafe {
                (
                    key_pages.part(panel(width, slot, 0..width, len)),
                    value_pages.part(slot * width..(slot + len) * width),
                )
            };
            transpose(of_keys, PAGE_TOKENS, [width, len], keys, width);
            values.copy_from_slice(of_values);
        }
    });
}

/// Tokens whose slots follow one another in a page, or one whose slot does not exist.
struct Run {
    first: usize,
    len: usize,
    slot: Option<usize>,
}

fn runs(shape: PageShape, slots: Shared<u32>, tokens: Range<usize>) -> impl Iterator<Item = Run> {
    let Range { mut start, end } = tokens;
    let slot_of = move |token: usize| {
        let slot = slots.get(token) as usize;
        (slot < shape.pages * PAGE_TOKENS).then_some(slot)
    };
    std::iter::from_fn(move || {
        let first = (start < end).then_some(start)?;
        let slot = slot_of(first);
        start += 1;
        if let Some(slot) = slot {
            let left = PAGE_TOKENS - slot % PAGE_TOKENS;
            let last = end.min(first + left);
            while start < last && slot_of(start) == Some(slot + start - first) {
                start += 1;
            }
        }
        Some(Run {
            first,
            len: start - first,
            slot,
        })
    })
}

// Where these columns of the keys of `len` slots lie: a column's neighbours are the keys of neighbouring tokens.
fn panel(width: usize, slot: usize, columns: Range<usize>, len: usize) -> Range<usize> {
    let at =
        |column: usize| (slot / PAGE_TOKENS * width + column) * PAGE_TOKENS + slot % PAGE_TOKENS;
    at(columns.start)..at(columns.end - 1) + len
}

// Writes rows of columns, `from_step` apart, as columns of rows that lie `to_step` apart.
fn transpose<T: Element<Acc: Lanes>>(
    from: &[T],
    from_step: usize,
    [rows, columns]: [usize; 2],
    to: &mut [T],
    to_step: usize,
) {
    if TypeId::of::<T>() == TypeId::of::<T::Acc>() {
        let (from, to) = (bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to));
        return T::Acc::transpose(from, from_step, rows, columns, to, to_step);
    }
    // Squares whose rows all stay in the cache.
    const SIDE: usize = 16;
    for row in (0..rows).step_by(SIDE) {
        for column in (0..columns).step_by(SIDE) {
            for row in row..rows.min(row + SIDE) {
                for column in column..columns.min(column + SIDE) {
                    to[column * to_step + row] = from[row * from_step + column];
                }
            }
        }
    }
}
