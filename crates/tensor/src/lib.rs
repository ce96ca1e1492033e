//! The safe shell over the seam, against which algorithms are written.
//!
//! This crate is for layers and operations that the crate `fascicle` lacks, which re-exports this one as `fascicle::tensor`.
//! Begin with [Your own layer, loss and optimiser](https://github.com/fascicle-rs/fascicle/blob/main/docs/extending.md) in the
//! manual of [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! It has concrete types without a parameter for the vendor: [`Device`], [`Stream`], [`Tensor`],
//! [`Communicator`], and the autograd tape in [`autograd`]. Everything is checked here, once, in release builds
//! too: lengths, devices, element types, overlap.
//!
//! # Ordering and memory
//! A tensor's storage remembers which streams use it. Work queued on another stream waits for them
//! automatically. Memory returns to the allocator's cache together with the events that must pass before its
//! next use. So no safe code can read data that is still being written, or free memory that queued work still
//! uses. To overlap, queue work on another stream and do not touch the result too early.
//!
//! # Threads
//! A rank is one thread, and a device's objects stay on it (they are not `Send`). Data for another thread goes
//! through the host.
//!
//! Read in this order: `device`, `stream`, `memory_use`, `memory`, `storage`, `tensor`, [`ops`], `recording`,
//! `communicator`, [`autograd`], `saved`.
//!
//! Two tensors on the CPU, and a mistake:
//!
//! ```
//! use fascicle_tensor::{DType, Device, Tensor, ops};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::new(cpu::open(cpu::Options::default())?)?;
//! let a = Tensor::from_slice(&device, &[2, 2], &[1.0f32, 2.0, 3.0, 4.0])?;
//! let b = Tensor::full(&device, DType::F32, &[2, 2], 0.5)?;
//! assert_eq!(ops::add(&a, &b)?.to_vec::<f32>()?, [1.5, 2.5, 3.5, 4.5]);
//!
//! // A mistake is an error, in release builds too.
//! let short = Tensor::zeros(&device, DType::F32, &[3])?;
//! assert!(ops::add(&a, &short).is_err());
//! # Ok(())
//! # }
//! ```

pub mod autograd;
mod beyond;
mod communicator;
mod device;
mod held;
mod memory;
mod memory_use;
pub mod ops;
mod overlap;
mod paged;
mod recording;
mod saved;
mod shape;
mod storage;
mod stream;
#[allow(
    clippy::module_inception,
    reason = "the type that the crate is named for"
)]
mod tensor;
pub mod trace;
mod uneven_shards;

pub use autograd::Var;
pub use beyond::Beyond;
pub use communicator::Communicator;
pub use device::Device;
pub use hal::{DType, Error, ReduceOp, Result, StreamKind};
pub use memory_use::{KindUse, MemoryKind, MemoryUse};
pub use paged::Paged;
pub use recording::Recording;
pub use saved::{Carried, SavedSegment};
pub use stream::{Event, Stream};
pub(crate) use tensor::Arguments;
pub use tensor::{Scalar, Tensor, is_exact};
pub use uneven_shards::UnevenShards;
