//! Look-up in a sharded table, and its gradient.

use super::{
    block::{blocks, grain_of_rows, split},
    columns::add_block,
    dispatch::dispatch,
    memory::{BLOCK, Shared},
};
use crate::{element::Element, pool::Pool};
use hal::{
    Result,
    kernel::{EmbeddingBackward, EmbeddingForward},
};

/// The local row of the table that `id` names, if it is held here.
#[inline(always)]
fn local_row(id: u32, first_row: usize, table_rows: usize) -> Option<usize> {
    (id as usize)
        .checked_sub(first_row)
        .filter(|&row| row < table_rows)
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn embedding_forward(args: &EmbeddingForward, pool: &Pool) -> Result<()> {
    dispatch!("embedding_forward", args.table.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        let [table, out] = unsafe { Shared::<T>::all([args.table, args.out]) };
        // SAFETY: guaranteed by the caller, which passes ids as u32.
        let ids = unsafe { Shared::<u32>::new(args.ids) };
        look_up(args, table, ids, out, pool);
        Ok(())
    })
}

fn look_up<T: Element>(
    args: &EmbeddingForward,
    table: Shared<T>,
    ids: Shared<u32>,
    out: Shared<T>,
    pool: &Pool,
) {
    let columns = args.columns;
    pool.split(args.rows, grain_of_rows(columns), |rows| {
        for row in rows {
            // SAFETY: nothing else uses the output, and each of its rows is one thread's.
            let out = unsafe { out.part_mut(row * columns..(row + 1) * columns) };
            match local_row(ids.get(row), args.first_row, args.table_rows) {
                Some(held) => {
                    // SAFETY: nothing writes to the table during the launch.
                    let row = unsafe { table.part(held * columns..(held + 1) * columns) };
                    out.copy_from_slice(row);
                }
                None => out.fill(T::zeroed()),
            }
        }
    });
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn embedding_backward(args: &EmbeddingBackward, pool: &Pool) -> Result<()> {
    dispatch!("embedding_backward", args.d_out.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slice's own.
        let d_out = unsafe { Shared::<T>::new(args.d_out) };
        // SAFETY: guaranteed by the caller, which passes ids as u32.
        let ids = unsafe { Shared::<u32>::new(args.ids) };
        // SAFETY: guaranteed by the caller, which passes the gradient in the accumulator type.
        let d_table = unsafe { Shared::new(args.d_table) };
        scatter(args, d_out, ids, d_table, pool);
        Ok(())
    })
}

// Threads share the columns, not the ids, because an id may occur twice, and its rows are added in order.
fn scatter<T: Element>(
    args: &EmbeddingBackward,
    d_out: Shared<T>,
    ids: Shared<u32>,
    d_table: Shared<T::Acc>,
    pool: &Pool,
) {
    let columns = args.columns;
    split(
        pool,
        columns.div_ceil(BLOCK),
        grain_of_rows(args.rows * BLOCK),
        #[inline(always)]
        |strips| {
            let strip = strips.start * BLOCK..columns.min(strips.end * BLOCK);
            for i in 0..args.rows {
                let Some(row) = local_row(ids.get(i), args.first_row, args.table_rows) else {
                    continue;
                };
                blocks(
                    strip.clone(),
                    #[inline(always)]
                    |column, len| {
                        let values = d_out.load(i * columns + column, len);
                        add_block(d_table, row * columns + column, values, len);
                    },
                );
            }
        },
    );
}
