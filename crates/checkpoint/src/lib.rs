//! Checkpoints: tensors on disk, free of layout, so that any grid reads what any other wrote.
//!
//! `step-00000120/` holds one safetensors file per writing rank and a `manifest.json`. A tensor has a global name, a
//! global shape and an element type; every file holds boxes of global tensors, and the boxes of all files together
//! tile each tensor exactly once. The manifest says which boxes lie where, and carries the length and CRC-32 of every
//! file and of itself. It is written last, in a hidden folder that is then renamed: a checkpoint appears whole or not
//! at all, and a process that dies at any moment leaves the earlier ones as they were.
//!
//! Read in this order: [`Piece`], [`write_shard`] and [`Writer`] (from ranks to a folder), [`prune`], [`Reader`] (from
//! a folder to boxes), [`reshard`](fn@reshard), [`inspect`](fn@inspect), [`export_safetensors`] and [`PlainFile`]
//! (other programs' files). Only host bytes are handled here, little-endian as on disk. One process at a time writes
//! into a checkpoints folder; any number may read.

#![deny(unsafe_code)]

mod boxes;
mod disk;
mod element;
mod error;
mod export;
mod folder;
mod inspect;
mod manifest;
mod map;
mod plain;
mod reader;
mod reshard;
mod shard;
mod stream;
#[cfg(test)]
mod tests;
mod tiling;
mod verify;
mod writer;

pub use error::{Error, Fault, Result};
pub use export::export_safetensors;
pub use folder::prune;
pub use inspect::{FileSummary, Summary, TensorSummary, inspect};
pub use manifest::{Sections, TensorInfo};
pub use plain::PlainFile;
pub use reader::Reader;
pub use reshard::reshard;
pub use shard::{Piece, ShardRecord, write_shard};
pub use tiling::Tiling;
pub use verify::VerifyReport;
pub use writer::Writer;
