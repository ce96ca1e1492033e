//! Groups along axes of the grid.

use crate::{
    memory::{handle, text},
    run::Rank,
    status::{Status, guarded},
};
use library::{collective::AxisGroup, hal::Error};
use std::ffi::c_char;

/// `fascicle_group`.
pub struct Group(pub(crate) AxisGroup);

/// Opens a group.
///
/// # Safety
/// `rank` is the argument of the function that `fascicle_run` runs, on its thread; `axes` is a text that ends with a zero byte;
/// `group` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fascicle_group_open(
    rank: *const Rank,
    axes: *const c_char,
    group: *mut *mut Group,
) -> Status {
    guarded(|| {
        // SAFETY: the caller's guarantee.
        let (rank, axes) = unsafe { (handle("rank", rank)?, text("axes", axes)?) };
        if group.is_null() {
            return Err(Error::invalid("group", "null", "a place for the handle"));
        }
        let opened = Box::new(Group(AxisGroup::named(&rank.0, axes)?));
        // SAFETY: the caller's guarantee; not null (checked above).
        unsafe { group.write(Box::into_raw(opened)) };
        Ok(())
    })
}

/// Closes a group.
///
/// # Safety
/// `group` is null or a live handle, which ends here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fascicle_group_close(group: *mut Group) {
    if !group.is_null() {
        guarded(|| {
            // SAFETY: from `fascicle_group_open`, and given back once.
            drop(unsafe { Box::from_raw(group) });
            Ok(())
        });
    }
}

/// This rank's index within the group.
///
/// # Safety
/// `group` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fascicle_group_rank(group: *const Group) -> usize {
    // SAFETY: the caller's guarantee.
    unsafe { group.as_ref() }.map_or(0, |group| group.0.rank())
}

/// Number of ranks in the group.
///
/// # Safety
/// `group` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fascicle_group_size(group: *const Group) -> usize {
    // SAFETY: the caller's guarantee.
    unsafe { group.as_ref() }.map_or(0, |group| group.0.size())
}

/// Waits until all ranks of the group have called it.
///
/// # Safety
/// `group` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fascicle_barrier(group: *const Group) -> Status {
    // SAFETY: the caller's guarantee.
    guarded(|| unsafe { handle("group", group) }?.0.barrier())
}
