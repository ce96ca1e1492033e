//! Copies of blocks of matrices.

use super::{block::grain_of_rows, memory::Shared};
use crate::pool::Pool;
use bytemuck::Pod;
use hal::{Result, kernel::Copy2d};

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn copy_2d(args: &Copy2d, pool: &Pool) -> Result<()> {
    match args.src.dtype.bytes() {
        // SAFETY: passed on from the caller; any bits of that size are a u64.
        8 => unsafe { copy_rows::<u64>(args, pool) },
        // SAFETY: passed on from the caller; any bits of that size are a u32.
        4 => unsafe { copy_rows::<u32>(args, pool) },
        // SAFETY: passed on from the caller; any bits of that size, which is 2 now, are a u16.
        _ => unsafe { copy_rows::<u16>(args, pool) },
    }
    Ok(())
}

/// # Safety
/// As for [`execute`](super::execute); `T` is as large as the elements.
unsafe fn copy_rows<T: Pod + Send + Sync>(args: &Copy2d, pool: &Pool) {
    // SAFETY: passed on from the caller.
    let [src, dst] = unsafe { Shared::<T>::all([args.src, args.dst]) };
    let dense = args.columns == args.src_leading && args.columns == args.dst_leading;
    let (rows, columns) = if dense {
        (1, args.rows * args.columns)
    } else {
        (args.rows, args.columns)
    };
    pool.split(rows, grain_of_rows(columns), |rows| {
        for row in rows {
            let (from, to) = (row * args.src_leading, row * args.dst_leading);
            // SAFETY: source and destination do not overlap, and each row is one thread's.
            let target = unsafe { dst.part_mut(to..to + columns) };
            // SAFETY: nothing writes to the source during the launch.
            target.copy_from_slice(unsafe { src.part(from..from + columns) });
        }
    });
}
