//! Copies a block of a factor to a new layout: row by row, in f32.

use super::{call::Strided, convert::widen, scratch::with_scratch, transpose::transpose};
use crate::{element::Element, pool::Pool};
use std::{any::TypeId, ops::Range};

// The fewest stored rows that one thread takes.
const GRAIN: usize = 64;
// Stored rows that are widened before they are transposed.
const WIDENED_ROWS: usize = 16;

/// Copies the block of `rows` x `columns` at `from` into `to`, as rows of f32 that lie `step` elements apart.
///
/// # Safety
/// The block is live memory that nobody writes; `to` has `rows` rows of `step` elements, and `step` is at least `columns`.
pub(super) unsafe fn stage<T: Element<Acc = f32>>(
    from: Strided<T>,
    rows: usize,
    columns: usize,
    to: &mut [f32],
    step: usize,
    pool: &Pool,
) {
    debug_assert!(to.len() >= rows * step && step >= columns);
    if rows == 0 || columns == 0 {
        return; // an empty factor may have no address
    }
    let to = Strided {
        data: to.as_mut_ptr(),
        row: step,
        column: 1,
    };
    if from.column == 1 {
        // SAFETY: each range of rows reads and writes only its own rows, all within what the caller guarantees.
        pool.split(rows, GRAIN, |rows| unsafe {
            copy_rows(from, rows, columns, to)
        });
    } else {
        // SAFETY: as above; the stored rows are the block's columns.
        pool.split(columns, GRAIN, |columns| unsafe {
            transpose_rows(from, columns, rows, to)
        });
    }
}

/// Widens rows that are stored as rows.
///
/// # Safety
/// As [`stage`]; nobody else uses these rows of `to`.
unsafe fn copy_rows<T: Element<Acc = f32>>(
    from: Strided<T>,
    rows: Range<usize>,
    columns: usize,
    to: Strided<f32>,
) {
    pulp::Arch::new().dispatch(|| {
        for row in rows {
            // SAFETY: `from` has a row of `columns` elements here.
            let source = unsafe { std::slice::from_raw_parts(from.from(row, 0).data, columns) };
            // SAFETY: `to` has one, too, which nobody else uses.
            let target = unsafe { std::slice::from_raw_parts_mut(to.from(row, 0).data, columns) };
            widen(source, target);
        }
    });
}

/// Widens and transposes columns that are stored as rows of `len` elements.
///
/// # Safety
/// As [`stage`]; nobody else uses these columns of `to`.
unsafe fn transpose_rows<T: Element<Acc = f32>>(
    from: Strided<T>,
    columns: Range<usize>,
    len: usize,
    to: Strided<f32>,
) {
    if TypeId::of::<T>() == TypeId::of::<f32>() {
        let (source, target) = (
            from.from(0, columns.start).data.cast(),
            to.from(0, columns.start).data,
        );
        // SAFETY: `T` is f32; the caller guarantees both places.
        return unsafe { transpose(source, from.column, columns.len(), len, target, to.row) };
    }
    with_scratch(WIDENED_ROWS * len, |wide| {
        let wide = Strided {
            data: wide.as_mut_ptr(),
            row: len,
            column: 1,
        };
        for start in columns.clone().step_by(WIDENED_ROWS) {
            let count = WIDENED_ROWS.min(columns.end - start);
            let stored = Strided {
                data: from.from(0, start).data,
                row: from.column,
                column: 1,
            };
            // SAFETY: `count` stored rows of `len` elements lie there, and `wide` has room for as many.
            unsafe { copy_rows(stored, 0..count, len, wide) };
            // SAFETY: as above; the caller guarantees `to`.
            unsafe { transpose(wide.data, len, count, len, to.from(0, start).data, to.row) };
        }
    });
}
