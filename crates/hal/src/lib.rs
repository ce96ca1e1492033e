//! The contracts between Fascicle's algorithms and a vendor.
//!
//! This crate is for whoever adds a vendor, or reads an error of one. A program that trains needs the crate `fascicle`, which
//! re-exports this one as `fascicle::hal`. Begin with `crates/cpu`, the reference vendor of
//! [Fascicle](https://github.com/fascicle-rs/fascicle), and the vendor in `tests/outside`, which is another crate's.
//! [ARCHITECTURE.md](https://github.com/fascicle-rs/fascicle/blob/main/ARCHITECTURE.md) has the layers above.
//!
//! This crate has only object-safe traits and plain types: memory is an address and a size, and the element
//! type is a value at run time. A vendor that receives one of its objects back (a stream, an event) downcasts
//! it to its own type. A vendor crate (cpu, cuda, rocm, sim) implements the six traits, and `Recording` if it
//! records work. The crate `tensor` wraps them in a safe shell, and only that shell calls them.
//!
//! Read in this order: [`dtype`], [`buffer`], [`device`], [`stream`], [`blas`], [`kernel`], [`collective`],
//! [`operand`], [`communicator`], [`error`]; [`sums`] fixes the order of long sums, and [`codes`] what a
//! byte stands for. Validation has one place: the shell checks lengths, devices,
//! dtypes and contiguity, in release builds too. A vendor reports only what nobody could foresee (out of
//! memory, a lost device, a peer that fails).
//!
//! The traits are `unsafe` to implement because the shell trusts their answers: an id must be true, an address
//! must be real, and work queued on one stream must run in order.

#![forbid(unsafe_op_in_unsafe_fn)]

pub mod abort;
pub mod blas;
pub mod buffer;
pub mod codes;
pub mod collective;
pub mod communicator;
pub mod device;
pub mod driver;
pub mod dry;
pub mod dtype;
pub mod environment;
pub mod error;
pub mod exchange;
pub mod files;
pub mod host_block;
pub mod kernel;
pub mod lock;
pub mod operand;
pub mod quantised;
pub mod random;
pub mod settings;
pub mod stopwatch;
pub mod stream;
pub mod sums;
#[cfg(not(fascicle_simulated))]
pub mod sync;
#[cfg(fascicle_simulated)]
#[path = "../../simulation/src/sync/mod.rs"]
pub mod sync;
pub mod threads;
pub mod transport;

pub use abort::AbortSignal;
pub use blas::{Batch, Blas, Epilogue, Gemm, Matrix};
pub use buffer::{RawBuffer, RawSlice};
pub use collective::{Collective, Counts, ReduceOp};
pub use communicator::{Communicator, GroupId, Join};
pub use device::{Capabilities, Device, DeviceId, Memory, VendorId, without_host};
pub use driver::{Driver, OpenOptions, Probe};
pub use dtype::{DType, Element};
pub use error::{Error, Result};
pub use exchange::Exchange;
pub use host_block::{HostBlock, PageLock};
pub use kernel::{Kernel, Kernels};
pub use lock::lock;
pub use operand::{Access, Operand};
pub use settings::{CollectiveBackend, DeviceSettings, EpiloguePlacement, SumOrder};
pub use stopwatch::Stopwatch;
pub use stream::{Event, Recording, Stream, StreamKind};
pub use transport::{Transfer, Transport, Work};
