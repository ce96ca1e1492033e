//! What quantised weights stand for.

use super::{
    block::{grain_of_rows, split},
    dispatch::dispatch,
    memory::Shared,
};
use crate::{codes::Codes, pool::Pool};
use hal::{Result, kernel::Dequantise};

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn dequantise(args: &Dequantise, pool: &Pool) -> Result<()> {
    let columns = args.part.columns;
    // SAFETY: guaranteed by the caller.
    let codes = unsafe { Codes::new(args.stored, args.part) };
    dispatch!("dequantise", args.out.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slice's own.
        let out = unsafe { Shared::<T>::new(args.out) };
        split(
            pool,
            args.part.rows,
            grain_of_rows(columns),
            #[inline(always)]
            |rows| {
                for row in rows {
                    codes.write(row, 0..columns, out, row * columns);
                }
            },
        );
        Ok(())
    })
}
