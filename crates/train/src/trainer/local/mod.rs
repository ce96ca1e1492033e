//! Local checkpoints: on disks or in memory of the nodes, written more often than the shared file system allows.
//!
//! Each node's folder holds what its ranks write, and copies of a partner node's files, so that the loss of a node loses no file.
//! They are never read by a trainer. After a failure, [`recover`](fn@recover) copies the newest one together in the run's own
//! folder, where it is a checkpoint like any other: any grid resumes from it.

mod folder;
mod partners;
mod recover;
mod write;

pub use folder::LocalFolder;
pub use recover::{Recovery, recover};
pub(super) use write::LocalTarget;
