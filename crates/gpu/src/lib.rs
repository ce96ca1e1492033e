//! What CUDA and HIP share, written once over tables of functions.
//!
//! Only `fascicle-cuda` and `fascicle-rocm` use it. To train on a GPU, begin with the crate `fascicle`, its features `cuda` and
//! `rocm`, and [GPUs](https://github.com/fascicle-rs/fascicle/blob/main/docs/gpus.md) in the manual of
//! [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! A vendor crate fills [`table`] from its libraries and calls [`open`], which returns a `hal::Device`. Read in this
//! order: [`table`], [`options`], `context`, `device`, `stream`, `event`, `kernels` over [`lower`], `custom`, `matmul`,
//! `collectives`, `graph`.
//!
//! Ranks of one process share a device's context, so each sees the memory of the others. Every call binds the calling
//! thread to that context first, so nothing depends on what a thread was bound to before.

mod budget;
mod collectives;
mod context;
mod custom;
mod device;
mod driver;
mod event;
mod graph;
mod grown;
mod kernels;
mod libraries;
mod locked;
pub mod lower;
mod matmul;
mod objects;
pub mod options;
mod places;
mod stream;
pub mod table;
mod wait;

pub use device::open;
pub use driver::{no_device, probe};
pub use libraries::{Libraries, Places};
pub use objects::objects;
pub use options::Options;
