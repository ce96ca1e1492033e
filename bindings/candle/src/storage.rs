//! The elements of a tensor in candle's memory of the CPU.
//!
//! A tensor shares its storage and is immutable, but an `InplaceOp1` receives the storage itself. So vectors can be moved out of a
//! tensor and back, or lent to a collective, without a copy.

use crate::{Error, Result};
use candle_core::{CpuStorage, InplaceOp1, Layout, Storage, Tensor};
use library::hal;
use std::cell::Cell;

/// Runs its body on the vectors of `$storage` if they are floats, with `$kind` the variant that they have.
macro_rules! with_floats {
    ($storage:expr, |$vector:ident, $kind:ident| $work:expr, else $other:expr) => {
        match $storage {
            candle_core::CpuStorage::F64($vector) => {
                #[allow(unused_imports)]
                use candle_core::CpuStorage::F64 as $kind;
                $work
            }
            candle_core::CpuStorage::F32($vector) => {
                #[allow(unused_imports)]
                use candle_core::CpuStorage::F32 as $kind;
                $work
            }
            candle_core::CpuStorage::BF16($vector) => {
                #[allow(unused_imports)]
                use candle_core::CpuStorage::BF16 as $kind;
                $work
            }
            candle_core::CpuStorage::F16($vector) => {
                #[allow(unused_imports)]
                use candle_core::CpuStorage::F16 as $kind;
                $work
            }
            _ => $other,
        }
    };
}
pub(crate) use with_floats;

/// Runs `work` on a tensor's storage, which nothing else reads meanwhile.
///
/// # Errors
/// [`hal::Error::Invalid`] for a tensor that is not on the CPU; that of `work`.
pub(crate) fn with_storage<R>(
    name: &str,
    tensor: &Tensor,
    work: impl FnOnce(&mut CpuStorage) -> Result<R>,
) -> Result<R> {
    if !tensor.device().is_cpu() {
        let found = format!("on {:?}", tensor.device().location());
        return Err(hal::Error::invalid(name, found, "a tensor on candle's CPU device").into());
    }
    let operation = Within {
        work: Cell::new(Some(work)),
        outcome: Cell::new(None),
    };
    tensor.inplace_op1(&operation)?;
    operation
        .outcome
        .into_inner()
        .expect("candle has run the operation")
}

/// An operation that hands candle's storage to a closure, once.
struct Within<F, R> {
    work: Cell<Option<F>>,
    outcome: Cell<Option<Result<R>>>,
}

impl<R, F: FnOnce(&mut CpuStorage) -> Result<R>> InplaceOp1 for Within<F, R> {
    fn name(&self) -> &'static str {
        "fascicle"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, _: &Layout) -> candle_core::Result<()> {
        self.outcome.set(self.work.take().map(|work| work(storage)));
        Ok(())
    }
}

/// The address and number of the elements that a tensor's storage holds.
///
/// # Errors
/// [`hal::Error::Invalid`] for a tensor that is not on the CPU, or not of floats.
pub(crate) fn place(name: &str, tensor: &Tensor) -> Result<(usize, usize)> {
    let refuse = |found: String| {
        Error::from(hal::Error::invalid(
            name,
            found,
            "floats on candle's CPU device",
        ))
    };
    let (storage, _) = tensor.storage_and_layout();
    let Storage::Cpu(storage) = &*storage else {
        return Err(refuse(format!("on {:?}", tensor.device().location())));
    };
    with_floats!(
        storage,
        |vector, _kind| Ok((vector.as_ptr().addr(), vector.len())),
        else Err(refuse(format!("elements of {:?}", tensor.dtype())))
    )
}

/// Whether a tensor's elements are all of a storage of this length, in order.
pub(crate) fn is_whole(tensor: &Tensor, length: usize) -> bool {
    let layout = tensor.layout();
    layout.is_contiguous() && layout.start_offset() == 0 && tensor.elem_count() == length
}
