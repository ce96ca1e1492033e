//! Another library's tensor.

use crate::{
    abi::{DLManagedTensorVersioned, DLTensor, FLAG_READ_ONLY, MAJOR},
    kinds,
};
use hal::{Error, Result};
use std::ptr::NonNull;
use tensor::{Device, Tensor};

/// A tensor over the memory of another library's, which receives it back when the last view of it is dropped.
///
/// The deleter runs once, on the thread that drops the tensor or calls this: also if this fails.
///
/// # Cost
/// Nothing is copied.
///
/// # Errors
/// [`Error::Invalid`] for null, for another major version, for a tensor that may not be written, on another device, of another type,
/// or whose elements are not contiguous in row-major order; those of [`Tensor::from_memory`].
///
/// # Safety
/// `managed` is null or a valid `DLManagedTensorVersioned` that nobody else consumes, and it says the truth. Until its deleter has run,
/// its memory stays, and nothing else accesses the elements, unless streams order the accesses.
pub unsafe fn import(device: &Device, managed: *mut DLManagedTensorVersioned) -> Result<Tensor> {
    let Some(managed) = NonNull::new(managed) else {
        return Err(refuse("null", "a tensor"));
    };
    // From here on, whoever returns gives it back.
    let owner = Owner(managed);
    // SAFETY: the caller's guarantee.
    let version = unsafe { (*managed.as_ptr()).version };
    if version.major != MAJOR {
        let found = format!("version {}.{}", version.major, version.minor);
        return Err(refuse(found, "version 1 of the structs"));
    }
    // SAFETY: the caller's guarantee; the version says that the structs are those of `abi`. Nothing writes them before the deleter.
    let managed = unsafe { managed.as_ref() };
    if managed.flags & FLAG_READ_ONLY != 0 {
        return Err(refuse("a tensor to read only", "one that may be written"));
    }
    let tensor = &managed.dl_tensor;
    let here = kinds::of_device(device.id())?;
    if tensor.device != here {
        let found = format!("{:?}", tensor.device);
        return Err(refuse(found, format!("{here:?}, which is {}", device.id())));
    }
    let dtype = kinds::dtype(tensor.dtype)?;
    // SAFETY: the caller's guarantee.
    let shape = unsafe { contiguous(tensor) }?;
    let address = (tensor.data.expose_provenance() as u64).checked_add(tensor.byte_offset);
    let address = address.ok_or_else(|| refuse("an offset beyond memory", "a smaller one"))?;
    // SAFETY: the caller's guarantee for the memory, which `owner` keeps.
    unsafe { Tensor::from_memory(device, dtype, &shape, address, Some(Box::new(owner))) }
}

/// The sizes of the dims, if their elements follow each other in row-major order.
///
/// # Safety
/// `shape` has `ndim` numbers, and `strides` too if it is not null.
unsafe fn contiguous(tensor: &DLTensor) -> Result<Vec<usize>> {
    let num_dims = usize::try_from(tensor.ndim);
    let num_dims = num_dims.map_err(|_| refuse(format!("{} dims", tensor.ndim), "0 or more"))?;
    // SAFETY: the caller's guarantee.
    let shape = unsafe { numbers(tensor.shape, num_dims) }.unwrap_or_default();
    let sizes = shape.iter().map(|&size| usize::try_from(size));
    let sizes = sizes.collect::<std::result::Result<Vec<usize>, _>>();
    let sizes = sizes.map_err(|_| refuse(format!("shape {shape:?}"), "sizes of 0 or more"))?;
    if sizes.len() != num_dims {
        return Err(refuse(
            format!("no shape for {num_dims} dims"),
            "their sizes",
        ));
    }
    // SAFETY: the caller's guarantee.
    let Some(strides) = (unsafe { numbers(tensor.strides, num_dims) }) else {
        return Ok(sizes);
    };
    let mut next = 1i64;
    for (&size, &stride) in shape.iter().zip(strides).rev() {
        // A dim of one index has no next one, and a tensor without elements none at all.
        if size > 1 && stride != next && !shape.contains(&0) {
            let found = format!("strides {strides:?} of shape {shape:?}");
            return Err(refuse(found, "contiguous elements in row-major order"));
        }
        next = next.saturating_mul(size);
    }
    Ok(sizes)
}

/// # Safety
/// `start` is null or has `count` numbers.
unsafe fn numbers<'a>(start: *const i64, count: usize) -> Option<&'a [i64]> {
    // SAFETY: the caller's guarantee; not null where it is read.
    (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts(start, count) })
}

fn refuse(found: impl Into<String>, needed: impl Into<String>) -> Error {
    Error::invalid("DLPack", found, needed)
}

/// Another library's tensor, which goes back when this is dropped.
struct Owner(NonNull<DLManagedTensorVersioned>);

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: the guarantee of `import`; every version has its deleter there.
        let deleter = unsafe { (*self.0.as_ptr()).deleter };
        if let Some(deleter) = deleter {
            // SAFETY: as above; this value is the only consumer, and is dropped once.
            unsafe { deleter(self.0.as_ptr()) };
        }
    }
}
