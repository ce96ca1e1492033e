//! Gradients reduced in buckets, in the caller's memory.

use crate::{
    groups::Group,
    memory::{self, handle, tensor, text},
    status::{Status, guarded},
};
use library::{
    collective::{GradientReducer, ReducerOptions},
    hal::Error,
    parallel::Context,
};
use std::ffi::{c_char, c_int, c_void};

/// `fascicle_reducer`.
pub struct Reducer {
    context: Context,
    reducer: GradientReducer,
}

/// Makes a reducer.
///
/// # Safety
/// `group` is null or a live handle, on its thread; `reducer` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fascicle_reducer_open(
    group: *const Group,
    bucket_bytes: usize,
    average: c_int,
    reducer: *mut *mut Reducer,
) -> Status {
    guarded(|| {
        // SAFETY: the caller's guarantee.
        let group = unsafe { &handle("group", group)?.0 };
        if reducer.is_null() {
            return Err(Error::invalid("reducer", "null", "a place for the handle"));
        }
        let mut options = ReducerOptions {
            average: average != 0,
            ..ReducerOptions::default()
        };
        if bucket_bytes > 0 {
            options.bucket_bytes = bucket_bytes;
        }
        let made = Box::new(Reducer {
            context: group.context().clone(),
            reducer: GradientReducer::new(group, options)?,
        });
        // SAFETY: the caller's guarantee; not null (checked above).
        unsafe { reducer.write(Box::into_raw(made)) };
        Ok(())
    })
}

/// Takes a gradient, which is reduced in place.
///
/// # Safety
/// `reducer` is null or a live handle, on its thread; `name` is a text that ends with a zero byte; `gradient` holds `count` elements
/// of memory of the device, which nothing else accesses until `fascicle_reducer_finish` or `fascicle_reducer_close` has returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fascicle_reducer_push(
    reducer: *mut Reducer,
    name: *const c_char,
    gradient: *mut c_void,
    count: usize,
    dtype: c_int,
) -> Status {
    guarded(|| {
        // SAFETY: the caller's guarantee.
        let (reducer, name) = unsafe { (open(reducer)?, text("name", name)?) };
        // SAFETY: the caller's guarantee.
        let tensor = unsafe { tensor(&reducer.context, memory::dtype(dtype)?, gradient, count) }?;
        reducer.reducer.push_tensor(name, tensor)
    })
}

/// Waits for all reductions.
///
/// # Safety
/// `reducer` is null or a live handle, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fascicle_reducer_finish(reducer: *mut Reducer) -> Status {
    guarded(|| {
        // SAFETY: the caller's guarantee.
        let reducer = unsafe { open(reducer) }?;
        let reduced = reducer.reducer.finish()?;
        // Gradients that nothing divides may still be on their way.
        reduced
            .iter()
            .try_for_each(|gradient| gradient.synchronize())
    })
}

/// Ends a reducer.
///
/// # Safety
/// `reducer` is null or a live handle, which ends here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fascicle_reducer_close(reducer: *mut Reducer) {
    if !reducer.is_null() {
        guarded(|| {
            // SAFETY: from `fascicle_reducer_open`, and given back once.
            drop(unsafe { Box::from_raw(reducer) });
            Ok(())
        });
    }
}

/// # Safety
/// `reducer` is null or a live handle that nothing else uses.
unsafe fn open<'a>(reducer: *mut Reducer) -> Result<&'a mut Reducer, Error> {
    // SAFETY: the caller's guarantee.
    unsafe { reducer.as_mut() }.ok_or_else(|| Error::invalid("reducer", "null", "a handle"))
}
