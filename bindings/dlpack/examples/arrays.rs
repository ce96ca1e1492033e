//! A library for tests/arrays.py: it doubles a tensor of another library in place, and returns one of its own.

use fascicle_dlpack::{DLManagedTensorVersioned, export, import};
use hal::{Error, Result};
use std::ptr;
use tensor::{Device, Tensor, ops};

fn device() -> Result<Device> {
    Device::new(cpu::open(cpu::Options::default())?)
}

fn report<T>(outcome: Result<T>, none: T) -> T {
    outcome.unwrap_or_else(|error: Error| {
        println!("{error}");
        none
    })
}

/// Doubles a tensor in place, and gives it back; returns 0, or 1 after an error.
///
/// # Safety
/// As [`import`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn double_in_place(managed: *mut DLManagedTensorVersioned) -> i32 {
    let work = || {
        // SAFETY: the caller's guarantee.
        let tensor = unsafe { import(&device()?, managed) }?;
        let zeros = Tensor::zeros(tensor.device(), tensor.dtype(), tensor.shape())?;
        ops::axpby(0.0, &zeros, 2.0, &tensor)?;
        tensor.synchronize()
    };
    report(work().map(|()| 0), 1)
}

/// The numbers 0 to 5 as 2 x 3.
#[unsafe(no_mangle)]
pub extern "C" fn numbers() -> *mut DLManagedTensorVersioned {
    let work = || {
        let numbers = [0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0];
        export(&Tensor::from_slice(&device()?, &[2, 3], &numbers)?)
    };
    report(work().map(|exported| exported.as_ptr()), ptr::null_mut())
}
