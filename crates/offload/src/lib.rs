//! State that a device has no room for, in pieces: in memory of the host, or in a file of a folder.
//!
//! A [`Store`] is a list of pieces, of which each is read and written whole. [`Store::walk`] brings one after another to its
//! visitor, and takes it back changed. With a file, one thread reads ahead and another writes behind, over a fixed number of
//! buffers, so that a disk works while the visitor does. [`Disk`] is the file system, so that tests can let it fail.
//!
//! Read in this order: `disk`, `file` (reserved space, and a checksum per piece), `walk`, `store`.

#![forbid(unsafe_code)]

mod disk;
mod file;
mod store;
mod walk;

pub use disk::{Disk, FileSystem, Scratch};
pub use store::{Place, Store};
pub use walk::Visit;

#[cfg(test)]
mod tests;
