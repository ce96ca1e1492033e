//! A tensor for another library.

use crate::{
    abi::{DLManagedTensorVersioned, DLPackVersion, DLTensor, MAJOR},
    kinds,
};
use hal::Result;
use std::{
    cell::RefCell,
    collections::HashMap,
    mem::{self, ManuallyDrop},
    ptr::{self, NonNull},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, ThreadId},
};
use tensor::Tensor;

/// The minor version, which this crate fills in.
const MINOR: u32 = 1;

/// Gives a tensor to another library, which calls its deleter once when it has done.
///
/// All work that is queued on the elements has run when this returns. What is queued later, and what the other library does, its
/// callers order.
///
/// The deleter may run on any thread, but tensors stay on the thread of their rank: it drops the tensor itself, or leaves a note with
/// which the next export of that thread drops it. What another library still holds when the thread ends is never freed.
///
/// # Cost
/// Nothing is copied.
///
/// # Errors
/// Those of [`Tensor::address`]; [`Error::Invalid`](hal::Error::Invalid) for a device that DLPack has no number for.
pub fn export(tensor: &Tensor) -> Result<NonNull<DLManagedTensorVersioned>> {
    let device = kinds::of_device(tensor.device().id())?;
    let address = tensor.address()?;
    // An empty tensor has a null pointer (array API: `__dlpack__`).
    let is_empty = tensor.num_elements() == 0;
    let data = match is_empty {
        true => ptr::null_mut(),
        false => ptr::with_exposed_provenance_mut(address as usize),
    };
    let mut owner = Box::new(Owner {
        shape: tensor.shape().iter().map(|&size| size as i64).collect(),
        strides: strides(tensor.shape()),
        kept: keep(tensor.clone()),
    });
    let dl_tensor = DLTensor {
        data,
        device,
        ndim: owner.shape.len() as i32,
        dtype: kinds::of_dtype(tensor.dtype()),
        shape: owner.shape.as_mut_ptr(),
        strides: owner.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let managed = DLManagedTensorVersioned {
        version: DLPackVersion {
            major: MAJOR,
            minor: MINOR,
        },
        manager_ctx: Box::into_raw(owner).cast(),
        deleter: Some(delete),
        flags: 0,
        dl_tensor,
    };
    Ok(NonNull::from(Box::leak(Box::new(managed))))
}

// Elements from one index to the next, of each dim.
fn strides(shape: &[usize]) -> Vec<i64> {
    let after = |dim: usize| shape[dim + 1..].iter().map(|&size| size as i64);
    (0..shape.len()).map(|dim| after(dim).product()).collect()
}

/// # Safety
/// `managed` comes from `export` and was not deleted before.
unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
    if managed.is_null() {
        return;
    }
    // SAFETY: the caller's guarantee: both were boxes of `export`'s.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: as above.
    let owner = unsafe { Box::from_raw(managed.manager_ctx.cast::<Owner>()) };
    give_back(owner.kept);
}

/// What a consumer reads, and the tensor.
struct Owner {
    shape: Vec<i64>,
    strides: Vec<i64>,
    kept: Kept,
}

/// A tensor on its own thread, from any other.
struct Kept {
    thread: ThreadId,
    key: u64,
    notes: Arc<Mutex<Vec<u64>>>,
}

/// The tensors of a thread that other libraries hold.
#[derive(Default)]
struct Exports {
    tensors: HashMap<u64, ManuallyDrop<Tensor>>,
    next: u64,
    // Those that were given back on other threads.
    notes: Arc<Mutex<Vec<u64>>>,
}

thread_local! {
    static EXPORTS: RefCell<Exports> = RefCell::default();
}

fn keep(tensor: Tensor) -> Kept {
    let (kept, given_back) = EXPORTS.with_borrow_mut(|exports| {
        let notes = mem::take(&mut *exports.notes.lock().unwrap_or_else(PoisonError::into_inner));
        let given_back: Vec<_> = notes
            .iter()
            .map(|key| exports.tensors.remove(key))
            .collect();
        exports.next += 1;
        exports
            .tensors
            .insert(exports.next, ManuallyDrop::new(tensor));
        let kept = Kept {
            thread: thread::current().id(),
            key: exports.next,
            notes: exports.notes.clone(),
        };
        (kept, given_back)
    });
    // Outside of the borrow: a tensor's owner may be another library, whose deleter may do anything.
    given_back
        .into_iter()
        .flatten()
        .for_each(|tensor| drop(ManuallyDrop::into_inner(tensor)));
    kept
}

fn give_back(kept: Kept) {
    if kept.thread == thread::current().id() {
        let found = EXPORTS.try_with(|exports| exports.borrow_mut().tensors.remove(&kept.key));
        drop(found.ok().flatten().map(ManuallyDrop::into_inner));
        return;
    }
    let mut notes = kept.notes.lock().unwrap_or_else(PoisonError::into_inner);
    notes.push(kept.key);
}
