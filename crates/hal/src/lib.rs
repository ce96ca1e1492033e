//! The contracts between Fascicle's algorithms and a vendor.
//!
//! Object-safe traits and plain types, nothing else: memory is an address and a size, the element type is a value at run
//! time. An object that comes back to its vendor (a stream, an event) is downcast there to the vendor's own type. A vendor crate (cpu, cuda, rocm, sim) implements the six traits (and `Recording`, where it records work); the crate
//! `tensor` wraps them in a safe shell, and only that shell calls them.
//!
//! Read in this order: [`dtype`], [`buffer`], [`device`], [`stream`], [`blas`], [`kernel`], [`collective`],
//! [`operand`], [`communicator`], [`error`]. Who validates what is decided once: the shell checks lengths, devices, dtypes and contiguity in release
//! builds too, and a vendor reports only what nobody could foresee (out of memory, a lost device, a peer that fails).
//!
//! The traits are `unsafe` to implement because the shell trusts their answers: an id must be true, an address must be
//! real, work queued on one stream must run in order.

#![forbid(unsafe_op_in_unsafe_fn)]

pub mod abort;
pub mod blas;
pub mod buffer;
pub mod collective;
pub mod communicator;
pub mod device;
pub mod driver;
pub mod dry;
pub mod dtype;
pub mod error;
pub mod exchange;
pub mod kernel;
pub mod operand;
pub mod random;
pub mod stream;
pub mod transport;

pub use abort::AbortSignal;
pub use blas::{Batch, Blas, Epilogue, Gemm, Matrix};
pub use buffer::{RawBuffer, RawSlice};
pub use collective::{Collective, Counts, ReduceOp};
pub use communicator::{Communicator, GroupId, Join};
pub use device::{Capabilities, Device, DeviceId, Memory, VendorId};
pub use driver::{Driver, OpenOptions, Probe};
pub use dtype::{DType, Element};
pub use error::{Error, Result};
pub use exchange::Exchange;
pub use kernel::{Kernel, Kernels};
pub use operand::{Access, Operand};
pub use stream::{Event, Recording, Stream, StreamKind};
pub use transport::{Transfer, Transport, Work};
