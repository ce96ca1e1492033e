//! Checkpoints: tensors on disk, independent of layout, so that any grid reads what any other wrote.
//!
//! This crate is for tools that read or write the checkpoints of [Fascicle](https://github.com/fascicle-rs/fascicle), or that
//! save state of their own in this form. A trainer saves through the crate `fascicle`. Begin with
//! [Checkpoints](https://github.com/fascicle-rs/fascicle/blob/main/docs/checkpoints.md) in its manual.
//!
//! `step-00000120/` holds one safetensors file per writing rank and a `manifest.json`. A tensor has a global
//! name, a global shape and an element type. Every file holds boxes of global tensors, and the boxes of all
//! files together tile each tensor exactly once. The manifest lists the location of every box, and carries the
//! length and CRC-32 of every file and of itself. It is written last, in a hidden folder that is then renamed.
//! So a checkpoint appears complete or not at all, and a process that dies at any moment leaves the earlier
//! ones unchanged.
//!
//! Read in this order: [`Piece`], [`write_shard`] and [`Writer`] (from ranks to a folder), [`Retention`], [`Reader`] (from
//! a folder to boxes), [`reshard`](fn@reshard), [`inspect`](fn@inspect), [`digest`](fn@digest) and [`diff`](fn@diff)
//! (whether two checkpoints hold the same state), [`export_safetensors`] and [`PlainFile`] (other programs' files), and [`foreign`]
//! (their folders, whose tensors have other names and shapes). Only host bytes are handled here, little-endian as on disk. One process at a time writes
//! into a checkpoints folder; any number may read.
//!
//! Two ranks write one row each of a 2 x 3 tensor; a reader takes its last column, whichever files contain it:
//!
//! ```
//! use fascicle_checkpoint::{Piece, Reader, Sections, Writer, write_shard};
//! use grid::IndexBox;
//! use hal::DType;
//!
//! let folder = tempfile::tempdir()?;
//! let writer = Writer::begin(folder.path(), 120)?;
//! let bytes: Vec<u8> = (1..=6_u32).flat_map(u32::to_le_bytes).collect();
//! let layout = "[x | ]".parse()?;
//! let shard = |rank: usize| {
//!     let piece = Piece {
//!         name: "w",
//!         dtype: DType::U32,
//!         global_shape: &[2, 3],
//!         layout: &layout,
//!         index: IndexBox { start: vec![rank, 0], shape: vec![1, 3] },
//!         bytes: &bytes[12 * rank..][..12],
//!     };
//!     write_shard(writer.dir(), rank, &[piece])
//! };
//! let records = vec![shard(0)?, shard(1)?];
//! let path = writer.commit(records, Sections::default())?;
//!
//! let column = IndexBox { start: vec![0, 2], shape: vec![2, 1] };
//! assert_eq!(Reader::open(path)?.read("w", &[2, 3], &column)?, [3, 0, 0, 0, 6, 0, 0, 0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

mod boxes;
mod diff;
mod digest;
mod disk;
mod element;
mod error;
mod export;
mod folder;
pub mod foreign;
mod frozen;
mod inspect;
mod local;
mod manifest;
mod plain;
mod reader;
mod remote;
mod reshard;
mod retention;
mod scalar;
mod shard;
mod source;
mod stream;
mod table;
#[cfg(test)]
mod tests;
mod tiling;
mod verify;
mod writer;

pub use diff::{
    Description, DiffReport, FirstDifference, Pair, ScalarDiff, StoredElement, TensorDiff,
    Unmatched, diff,
};
pub use digest::{Digest, DigestReport, LeafDigest, digest};
pub use disk::{Disk, FileSystem, Stored, create_folder, replace_file, sync_name};
pub use error::{Error, Fault, Result};
pub use export::export_safetensors;
pub use folder::{clear, path_of_step};
pub use frozen::FrozenFile;
pub use inspect::{FileSummary, Summary, TensorSummary, inspect};
pub use local::{Assembly, FileCopy, Inventory};
pub use manifest::{Sections, TensorInfo};
pub use plain::PlainFile;
pub use reader::Reader;
pub use remote::{CheckpointStore, Limit, kept_checkpoints, prune_store, pull};
pub use reshard::reshard;
pub use retention::{HeldStep, HeldSteps, Retention, prune, prune_unheld};
pub use scalar::{Scalar, ScalarValue};
pub use shard::{Piece, PieceRecord, ShardRecord, write_shard, write_shard_on};
pub use stream::Emit;
pub use tiling::Tiling;
pub use verify::VerifyReport;
pub use writer::Writer;
