//! Tensors of the host's memory whose pages are locked for a device beside the host.

use super::Tensor;
use crate::{
    Device, shape,
    storage::{Owner, Storage},
};
use hal::{DType, Error, HostBlock, RawBuffer, Result, error::Bytes};

impl Tensor {
    /// Zeros of a device whose memory is that of [this process](hal::Capabilities::host_memory), or that was
    /// [opened beside](Device::open_host) another one, in pages that are locked for `other`: copies between the two run at the speed
    /// of their link. They count as no memory of either device.
    ///
    /// # Errors
    /// As [`zeros`](Tensor::zeros), but [`Error::Invalid`] if the host lacks the memory, and for a device with memory of its own;
    /// those of [`hal::Device::lock_pages`].
    pub fn zeros_locked_for(
        other: &Device,
        device: &Device,
        dtype: DType,
        shape: &[usize],
    ) -> Result<Tensor> {
        device.require("zeros_locked_for", dtype)?;
        let bytes = shape::num_elements("zeros_locked_for", shape, dtype)? * dtype.bytes();
        if !device.works_on_the_host() {
            let needed = "a device that is the host";
            return Err(Error::invalid(
                "zeros_locked_for",
                device.id().to_string(),
                needed,
            ));
        }
        let mut block = HostBlock::zeros(bytes).ok_or_else(|| {
            let found = "a host without room for it";
            Error::invalid("zeros_locked_for", found, Bytes(bytes).to_string())
        })?;
        block.lock(&**other.hal())?;
        let memory = RawBuffer {
            addr: block.as_mut_ptr().expose_provenance() as u64,
            bytes,
        };
        // SAFETY: the device works on the host's memory (checked above), and the storage keeps the only owner of the block, whose
        // memory stays where it is when the block is moved.
        let storage = unsafe { Storage::foreign(device, memory, Owner::Foreign(Box::new(block))) };
        Ok(Tensor::over(storage, dtype, shape))
    }
}
