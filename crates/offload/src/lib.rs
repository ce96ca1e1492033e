//! What a device has no room for: in memory of the host, or in a file of a folder.
//!
//! This crate is for the library itself: `fascicle-tensor` and `fascicle-parallel` put weights, gradients, optimiser state and
//! activations into it. To train a model that is larger than its devices, begin with the crate `fascicle` and
//! [Memory](https://github.com/fascicle-rs/fascicle/blob/main/docs/memory.md) in the manual of
//! [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! A [`Store`] is a list of pieces, of which each is read and written whole. [`Store::walk`] brings one after another to its
//! visitor, and takes it back changed. With a file, one thread reads ahead and another writes behind, over a fixed number of
//! buffers, so that a disk works while the visitor does. A [`Swap`] takes runs of bytes of any length, and gives each of them back
//! once: one thread writes them behind their owner and reads those that it will want next. [`Disk`] is the file system, so that
//! tests can let it fail.
//!
//! Read in this order: `disk`, `file` (reserved space, and a checksum per piece), `walk`, `store`; `extents`, `host`, `behind`, `swap`.

#![forbid(unsafe_code)]

mod behind;
mod disk;
mod extents;
mod file;
mod host;
mod store;
mod swap;
mod walk;

pub use disk::{Disk, FileSystem, Scratch, SharedDisk};
pub use store::{Place, Store};
pub use swap::{Fill, Parked, Swap, Take};
pub use walk::Visit;

#[cfg(test)]
mod tests;
