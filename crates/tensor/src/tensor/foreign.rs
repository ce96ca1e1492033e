//! Tensors over memory that something else has allocated: a program's own vectors and slices, or another framework's buffers.

use super::{Scalar, Tensor};
use crate::{
    Device, shape,
    storage::{Owner, Storage},
};
use hal::{DType, Error, RawBuffer, Result};
use std::{any::Any, mem::ManuallyDrop, ptr::NonNull, rc::Rc};

impl Tensor {
    /// A tensor of a vector's elements, in the vector's own memory if the device has
    /// [`host_memory`](hal::Capabilities::host_memory), and otherwise in a copy.
    ///
    /// # Errors
    /// As [`from_slice`](Tensor::from_slice).
    pub fn from_vec<T: Scalar>(
        device: &Device,
        shape: &[usize],
        elements: Vec<T>,
    ) -> Result<Tensor> {
        if !device.capabilities().host_memory {
            return Tensor::from_slice(device, shape, &elements);
        }
        fits("from_vec", device, T::DTYPE, shape, elements.len())?;
        let owned = OwnedMemory::of(elements);
        let block = owned.block();
        // SAFETY: the device has host memory (checked above), and the storage keeps the only owner of the block.
        let storage = unsafe { Storage::foreign(device, block, Owner::Foreign(Box::new(owned))) };
        Ok(Tensor::over(storage, T::DTYPE, shape))
    }

    /// The elements, after all work that writes them: the vector that [`from_vec`](Tensor::from_vec) took, if no other tensor views
    /// it and this one views all of it, and otherwise a copy.
    ///
    /// # Errors
    /// As [`to_vec`](Tensor::to_vec).
    pub fn into_vec<T: Scalar>(self) -> Result<Vec<T>> {
        let is_all = self.bytes() == self.storage.bytes();
        if !(self.storage.is_owned_by::<OwnedMemory<T>>() && self.is_unshared() && is_all) {
            return self.to_vec();
        }
        self.device().not_recorded("into_vec")?;
        let (owner, outcome) = self.storage.end_loan();
        outcome?;
        let owned = owner.and_then(|owner| owner.downcast::<OwnedMemory<T>>().ok());
        Ok(owned.expect("its owner was asked above").into_vec())
    }

    /// Runs `work` with a tensor of the slice's elements. What it writes is in the slice when this returns.
    ///
    /// On a device with [`host_memory`](hal::Capabilities::host_memory) the tensor lies in the slice's own memory, and the host
    /// waits for all work on it; a clone that outlives the call has no memory, and using it is an error. On other devices the
    /// elements are copied there and back.
    ///
    /// # Errors
    /// [`Error::Invalid`] if their number does not match the shape, and within recorded work; [`Error::Unsupported`] for a type
    /// that the device lacks; the error of `work`; the failure of a stream that uses the tensor, after which the elements are
    /// unspecified.
    pub fn lend_mut<T: Scalar, R>(
        device: &Device,
        shape: &[usize],
        elements: &mut [T],
        work: impl FnOnce(&Tensor) -> Result<R>,
    ) -> Result<R> {
        check_lent::<T>(device, shape, elements.len())?;
        Tensor::lend_all_mut(device, &mut [elements], |tensors| {
            work(&tensors[0].reshape(shape)?)
        })
    }

    /// As [`lend_mut`](Tensor::lend_mut), with a tensor of one dim for each of several slices.
    ///
    /// # Errors
    /// As [`lend_mut`](Tensor::lend_mut).
    pub fn lend_all_mut<T: Scalar, R>(
        device: &Device,
        slices: &mut [&mut [T]],
        work: impl FnOnce(&[Tensor]) -> Result<R>,
    ) -> Result<R> {
        for slice in &*slices {
            check_lent::<T>(device, &[slice.len()], slice.len())?;
        }
        if device.capabilities().host_memory {
            let blocks = slices
                .iter_mut()
                .map(|slice| block_of::<T>(slice.as_mut_ptr(), slice.len()))
                .collect();
            // SAFETY: the device has host memory, and the exclusive borrows of the slices outlive this call.
            return unsafe { on_loan::<T, R>(device, blocks, || Owner::Lender, work) };
        }
        let copies = slices
            .iter()
            .map(|slice| Tensor::from_slice(device, &[slice.len()], slice))
            .collect::<Result<Vec<Tensor>>>()?;
        let result = work(&copies)?;
        for (copy, slice) in copies.iter().zip(slices) {
            copy.download(bytemuck::cast_slice_mut(slice))?;
        }
        Ok(result)
    }

    /// As [`lend_mut`](Tensor::lend_mut), of elements that `work` only reads.
    ///
    /// # Errors
    /// As [`lend_mut`](Tensor::lend_mut); [`Error::Invalid`] also if `work` writes the tensor where it lies in the slice's memory.
    pub fn lend<T: Scalar, R>(
        device: &Device,
        shape: &[usize],
        elements: &[T],
        work: impl FnOnce(&Tensor) -> Result<R>,
    ) -> Result<R> {
        check_lent::<T>(device, shape, elements.len())?;
        if !device.capabilities().host_memory {
            return work(&Tensor::from_slice(device, shape, elements)?);
        }
        let block = block_of::<T>(elements.as_ptr(), elements.len());
        let work = |tensors: &[Tensor]| work(&tensors[0].reshape(shape)?);
        // SAFETY: the device has host memory, the borrow of the slice outlives this call, and a reader's storage refuses writes.
        unsafe { on_loan::<T, R>(device, vec![block], || Owner::Reader, work) }
    }

    /// A tensor over memory of the device that something else has allocated, such as another framework. Dropping the last view of it
    /// waits for the work that is queued on it and drops `owner`; without an owner it waits for nothing.
    ///
    /// # Safety
    /// `address` is memory of the device, in its primary context, that holds initialised elements of this type and number, aligned
    /// for them. It stays live until `owner` is dropped or, without one, until no tensor views it and all work queued on it has run.
    /// Until then nothing else accesses it, unless streams order the accesses.
    ///
    /// # Errors
    /// As [`empty`](Tensor::empty), but for [`Error::OutOfMemory`]; [`Error::Invalid`] for an address that is not aligned, after
    /// which `owner` is dropped.
    pub unsafe fn from_memory(
        device: &Device,
        dtype: DType,
        shape: &[usize],
        address: u64,
        owner: Option<Box<dyn Any>>,
    ) -> Result<Tensor> {
        device.require("from_memory", dtype)?;
        let bytes = shape::num_elements("from_memory", shape, dtype)? * dtype.bytes();
        if bytes > 0 && (address == 0 || !address.is_multiple_of(dtype.bytes() as u64)) {
            let needed = format!("an address aligned to {} bytes", dtype.bytes());
            return Err(Error::invalid(
                "from_memory",
                format!("{address:#x}"),
                needed,
            ));
        }
        let block = RawBuffer {
            addr: address,
            bytes,
        };
        let owner = owner.map_or(Owner::Elsewhere, Owner::Foreign);
        // SAFETY: the caller's guarantee.
        let storage = unsafe { Storage::foreign(device, block, owner) };
        Ok(Tensor::over(storage, dtype, shape))
    }

    /// The address of the elements, for another library that uses them while this tensor exists, once all work that is queued on them
    /// has run. From now on they stay where they are, whatever else needs room.
    ///
    /// The tensor does not learn what the other library does: whoever queues work on it orders the two.
    ///
    /// # Errors
    /// [`Error::Invalid`] for memory that was lent ([`lend`](Tensor::lend)) or has no owner here, because it may go before the tensor
    /// does; otherwise as [`synchronize`](Tensor::synchronize).
    pub fn address(&self) -> Result<u64> {
        if !self.storage.is_kept() {
            let found = "memory that was lent, or that has its owner elsewhere";
            return Err(Error::invalid(
                "address",
                found,
                "memory that the tensor keeps",
            ));
        }
        // Brings back elements that are away.
        let address = self.raw().addr;
        self.synchronize()?;
        self.storage.pin();
        Ok(address)
    }

    /// All of a storage.
    pub(super) fn over(storage: Storage, dtype: DType, shape: &[usize]) -> Tensor {
        Tensor {
            storage: Rc::new(storage),
            offset: 0,
            shape: shape.to_vec(),
            dtype,
        }
    }
}

fn check_lent<T: Scalar>(device: &Device, shape: &[usize], count: usize) -> Result<()> {
    device.not_recorded("lend")?;
    fits("lend", device, T::DTYPE, shape, count)
}

fn block_of<T>(start: *const T, count: usize) -> RawBuffer {
    RawBuffer {
        addr: start.expose_provenance() as u64,
        bytes: count * size_of::<T>(),
    }
}

/// # Safety
/// The device has host memory, and the blocks hold elements of this type. Until this returns they are live and disjoint, and
/// nothing else accesses them; others may read the blocks of an [`Owner::Reader`].
unsafe fn on_loan<T: Scalar, R>(
    device: &Device,
    blocks: Vec<RawBuffer>,
    owner: fn() -> Owner,
    work: impl FnOnce(&[Tensor]) -> Result<R>,
) -> Result<R> {
    let tensors = blocks.into_iter().map(|block| {
        // SAFETY: the caller's guarantee; the loan ends before this returns, however it does.
        let storage = unsafe { Storage::foreign(device, block, owner()) };
        Tensor::over(storage, T::DTYPE, &[block.bytes / size_of::<T>()])
    });
    let tensors: Vec<Tensor> = tensors.collect();
    let loans: Vec<Loan> = tensors
        .iter()
        .map(|tensor| Loan(tensor.storage.clone()))
        .collect();
    let result = work(&tensors)?;
    for loan in &loans {
        loan.0.end_loan().1?;
    }
    Ok(result)
}

/// A storage whose memory returns to its lender when this is dropped, also if the work has failed or panicked.
struct Loan(Rc<Storage>);

impl Drop for Loan {
    fn drop(&mut self) {
        // The device has host memory, so nothing uses it any more, whether a stream has failed or not.
        let _ = self.0.end_loan();
    }
}

fn fits(
    operation: &str,
    device: &Device,
    dtype: DType,
    shape: &[usize],
    found: usize,
) -> Result<()> {
    device.require(operation, dtype)?;
    let needed = shape::num_elements(operation, shape, dtype)?;
    match found == needed {
        true => Ok(()),
        false => Err(Error::invalid(
            operation,
            format!("{found} elements"),
            format!("{needed}, as {shape:?} has"),
        )),
    }
}

/// The memory of a vector, which no reference reaches while a device works on it.
#[derive(Debug)]
struct OwnedMemory<T> {
    start: NonNull<T>,
    len: usize,
    capacity: usize,
}

impl<T: Scalar> OwnedMemory<T> {
    fn of(elements: Vec<T>) -> OwnedMemory<T> {
        let mut elements = ManuallyDrop::new(elements);
        OwnedMemory {
            start: NonNull::new(elements.as_mut_ptr()).expect("a vector's pointer is not null"),
            len: elements.len(),
            capacity: elements.capacity(),
        }
    }

    fn block(&self) -> RawBuffer {
        block_of::<T>(self.start.as_ptr(), self.len)
    }

    fn into_vec(self) -> Vec<T> {
        let parts = ManuallyDrop::new(self);
        // SAFETY: these are the parts of a vector, taken apart in `of`; its elements are plain numbers, whatever wrote them.
        unsafe { Vec::from_raw_parts(parts.start.as_ptr(), parts.len, parts.capacity) }
    }
}

impl<T> Drop for OwnedMemory<T> {
    fn drop(&mut self) {
        // SAFETY: as in `into_vec`, after which this does not run.
        drop(unsafe { Vec::from_raw_parts(self.start.as_ptr(), self.len, self.capacity) });
    }
}
