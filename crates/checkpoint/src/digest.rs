//! One number for the state that a checkpoint holds, whatever grid wrote it.
//!
//! The digest is the root of a Merkle tree of depth one. Each scalar and each tensor is a leaf:
//!
//! ```text
//! leaf = SHA-256(["NAME","TYPE",[SHAPE]] "\n" elements)       the header is JSON without spaces
//! root = SHA-256("fascicle checkpoint digest 1\n" leaf leaf ...)   each leaf as its 32 bytes
//! ```
//!
//! Elements are little-endian and row-major over the global tensor. The scalars come first, with the shape `[]`, and the
//! tensors follow in the order of their names' bytes. No leaf begins as a root does, so neither can stand for the other.

use crate::{
    Reader, Result,
    reshard::copy,
    scalar::{Scalar, with_step},
    table::table,
};
use grid::IndexBox;
use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use std::{fmt, path::PathBuf};

const ROOT: &[u8] = b"fascicle checkpoint digest 1\n";

/// A SHA-256. Displays and serialises in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The digest of a checkpoint and of everything that it covers. Displays as a table for people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DigestReport {
    /// The checkpoint's folder.
    pub path: PathBuf,
    /// Training steps that led to it.
    pub step: u64,
    /// The digest of the checkpoint: that of the list of its leaves.
    pub digest: Digest,
    /// The leaves, in the order in which the digest covers them: scalars, then tensors by name.
    pub leaves: Vec<LeafDigest>,
}

/// The digest of one scalar or tensor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeafDigest {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub dtype: &'static str,
    /// Its global shape; empty for a scalar.
    pub shape: Vec<usize>,
    /// SHA-256 of name, type, shape and elements.
    pub digest: Digest,
}

/// Computes the digest of a checkpoint: of its step, of these scalars and of every tensor's name, type, global shape and
/// elements.
///
/// It depends neither on the files and boxes that hold the elements nor on the sections of the checkpoint, so two grids that
/// hold the same state bit for bit have the same digest. Memory holds one slab of 16 MiB and a window of 1 MiB of one file
/// at a time. Stored checksums are not compared: [`Reader::verify`] does that.
///
/// # Errors
/// [`Error::Damaged`](crate::Error::Damaged) or [`Error::Io`](crate::Error::Io) if a file has disappeared or shrunk since the
/// checkpoint was opened.
pub fn digest(reader: &Reader, scalars: &[Scalar]) -> Result<DigestReport> {
    let scalars = with_step(reader, scalars);
    let scalars = scalars.iter().map(|scalar| Ok(scalar_leaf(scalar)));
    let tensors = reader.names().map(|name| tensor_leaf(reader, name));
    let leaves: Vec<LeafDigest> = scalars.chain(tensors).collect::<Result<_>>()?;
    let mut root = Sha256::new_with_prefix(ROOT);
    leaves.iter().for_each(|leaf| root.update(leaf.digest.0));
    Ok(DigestReport {
        path: reader.path().to_owned(),
        step: reader.step(),
        digest: Digest(root.finalize().into()),
        leaves,
    })
}

fn scalar_leaf(Scalar { name, value }: &Scalar) -> LeafDigest {
    let mut hasher = begin(name, value.dtype(), &[]);
    hasher.update(value.bytes());
    LeafDigest {
        name: (*name).to_owned(),
        dtype: value.dtype(),
        shape: Vec::new(),
        digest: Digest(hasher.finalize().into()),
    }
}

fn tensor_leaf(reader: &Reader, name: &str) -> Result<LeafDigest> {
    let info = reader.info(name)?;
    let (dtype, shape) = (info.dtype.name(), &info.global_shape);
    let mut hasher = begin(name, dtype, shape);
    copy(reader, name, &IndexBox::full(shape), &mut |bytes| {
        hasher.update(bytes);
        Ok(())
    })?;
    Ok(LeafDigest {
        name: name.to_owned(),
        dtype,
        shape: shape.clone(),
        digest: Digest(hasher.finalize().into()),
    })
}

/// The hash of a leaf up to its elements.
fn begin(name: &str, dtype: &str, shape: &[usize]) -> Sha256 {
    let header = serde_json::to_string(&(name, dtype, shape));
    let header = header.expect("a bug: names and numbers are plain values");
    Sha256::new_with_prefix(header + "\n")
}

impl fmt::Display for DigestReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.digest)?;
        let row = |leaf: &LeafDigest| {
            let shape = format!("{:?}", leaf.shape);
            let digest = leaf.digest.to_string();
            [digest, leaf.dtype.to_owned(), shape, leaf.name.clone()]
        };
        let titles = ["SHA-256", "type", "shape", "name"].map(str::to_owned);
        let rows = self.leaves.iter().map(row);
        table(f, [titles].into_iter().chain(rows))
    }
}
