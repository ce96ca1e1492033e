//! Copies of blocks of matrices, of dims of tensors, and of rows selected by a mask.

use super::{block::grain_of_rows, memory::Shared};
use crate::pool::Pool;
use bytemuck::Pod;
use hal::{
    Result,
    kernel::{Copy2d, CopyStrided, SelectRows},
};

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn copy_2d(args: &Copy2d, pool: &Pool) -> Result<()> {
    match args.src.dtype.bytes() {
        // SAFETY: guaranteed by the caller; any bits of that size are a u64.
        8 => unsafe { copy_rows::<u64>(args, pool) },
        // SAFETY: guaranteed by the caller; any bits of that size are a u32.
        4 => unsafe { copy_rows::<u32>(args, pool) },
        // SAFETY: guaranteed by the caller; any bits of that size are a u16.
        2 => unsafe { copy_rows::<u16>(args, pool) },
        // SAFETY: guaranteed by the caller; any byte is a u8, and no other size is left.
        _ => unsafe { copy_rows::<u8>(args, pool) },
    }
    Ok(())
}

/// # Safety
/// As for [`execute`](super::execute); `T` is as large as the elements.
unsafe fn copy_rows<T: Pod + Send + Sync>(args: &Copy2d, pool: &Pool) {
    // SAFETY: guaranteed by the caller.
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

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn copy_strided(args: &CopyStrided, pool: &Pool) -> Result<()> {
    match args.src.dtype.bytes() {
        // SAFETY: guaranteed by the caller; any bits of that size are a u64.
        8 => unsafe { copy_steps::<u64>(args, pool) },
        // SAFETY: guaranteed by the caller; any bits of that size are a u32.
        4 => unsafe { copy_steps::<u32>(args, pool) },
        // SAFETY: guaranteed by the caller; any bits of that size are a u16.
        2 => unsafe { copy_steps::<u16>(args, pool) },
        // SAFETY: guaranteed by the caller; any byte is a u8, and no other size is left.
        _ => unsafe { copy_steps::<u8>(args, pool) },
    }
    Ok(())
}

/// # Safety
/// As for [`execute`](super::execute); `T` is as large as the elements.
unsafe fn copy_steps<T: Pod + Send + Sync>(args: &CopyStrided, pool: &Pool) {
    // SAFETY: guaranteed by the caller.
    let [src, dst] = unsafe { Shared::<T>::all([args.src, args.dst]) };
    let [_, second, third, columns] = args.sizes;
    let [a, b, c, step] = args.strides;
    let rows = args.sizes[..3].iter().product();
    pool.split(rows, grain_of_rows(columns), |rows| {
        for row in rows {
            let (outer, inner) = (row / third, row % third);
            let from = outer / second * a + outer % second * b + inner * c;
            if step == 1 {
                // SAFETY: source and destination do not overlap, and each row is one thread's.
                let target = unsafe { dst.part_mut(row * columns..(row + 1) * columns) };
                // SAFETY: nothing writes to the source during the launch.
                target.copy_from_slice(unsafe { src.part(from..from + columns) });
            } else {
                (0..columns).for_each(|i| dst.set(row * columns + i, src.get(from + i * step)));
            }
        }
    });
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn select_rows(args: &SelectRows, pool: &Pool) -> Result<()> {
    match args.out.dtype.bytes() {
        // SAFETY: guaranteed by the caller; any bits of that size are a u64.
        8 => unsafe { select::<u64>(args, pool) },
        // SAFETY: guaranteed by the caller; any bits of that size are a u32.
        4 => unsafe { select::<u32>(args, pool) },
        // SAFETY: guaranteed by the caller; any bits of that size are a u16.
        2 => unsafe { select::<u16>(args, pool) },
        // SAFETY: guaranteed by the caller; any byte is a u8, and no other size is left.
        _ => unsafe { select::<u8>(args, pool) },
    }
    Ok(())
}

/// # Safety
/// As for [`execute`](super::execute); `T` is as large as the elements, and its zero bits are the number 0.
unsafe fn select<T: Pod + Send + Sync>(args: &SelectRows, pool: &Pool) {
    // SAFETY: guaranteed by the caller, which passes the mask as u32.
    let mask = unsafe { Shared::<u32>::new(args.mask) };
    // SAFETY: guaranteed by the caller.
    let [a, b] = [args.a, args.b].map(|side| unsafe { Shared::<T>::optional(side) });
    // SAFETY: guaranteed by the caller.
    let out = unsafe { Shared::<T>::new(args.out) };
    pool.split(args.rows, grain_of_rows(args.columns), |rows| {
        for row in rows {
            let elements = row * args.columns..(row + 1) * args.columns;
            let side = if mask.get(row) != 0 { a } else { b };
            // SAFETY: the output overlaps nothing, and each row is one thread's.
            let target = unsafe { out.part_mut(elements.clone()) };
            match side {
                // SAFETY: nothing writes to the inputs during the launch.
                Some(side) => target.copy_from_slice(unsafe { side.part(elements) }),
                None => target.fill(T::zeroed()),
            }
        }
    });
}
