//! Copies of checkpoints in object stores: S3 and what speaks its protocol, Google Cloud Storage, Azure, or a mounted folder.
//!
//! This crate is for the library itself, and for tools that copy checkpoints to or from a store. A run copies its own with the key
//! `checkpoint.store` of the crate `fascicle`, with the feature `object-store`. Begin with
//! [Checkpoints](https://github.com/fascicle-rs/fascicle/blob/main/docs/checkpoints.md#in-an-object-store) in the manual of
//! [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! A checkpoint in a store has the files of its folder, under the same names: `PREFIX/step-00000120/manifest.json` and the files that
//! it lists. The manifest is written last and removed first, so a listing shows complete checkpoints alone. Every byte is compared with
//! the manifest's checksums on its way there and back.
//!
//! Read in this order: [`StoreFolder`] (the calls, which block), `place` (from a URL to a store), `upload` and `download` (files in
//! pieces), `attempts` (what is tried again), `worker` (the thread that runs what is asynchronous), `secrets` (what no message says).
//!
//! ```
//! use checkpoint::{CheckpointStore, Limit};
//! use std::time::Duration;
//!
//! let folder = tempfile::tempdir()?;
//! let url = format!("file://{}", folder.path().display());
//! let store = fascicle_store::StoreFolder::open(&url)?;
//! assert!(store.steps(&Limit::after(Duration::from_secs(60)))?.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod attempts;
mod download;
mod folder;
mod place;
mod secrets;
#[cfg(test)]
mod tests;
mod upload;
mod worker;

pub use folder::StoreFolder;
