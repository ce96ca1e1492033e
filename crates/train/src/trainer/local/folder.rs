//! Where the nodes of a job keep local checkpoints.

use crate::{
    Error, Result,
    checkpoint::{self, FileSystem},
};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The name before the number of a node.
const NODE: &str = "node-";

/// A folder of the same path on every node, each with its own part of the job's local checkpoints.
///
/// Nodes may as well share the file system: their parts have names of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalFolder(PathBuf);

impl LocalFolder {
    /// The folder at this path, which one run uses alone.
    pub fn new(path: impl Into<PathBuf>) -> LocalFolder {
        LocalFolder(path.into())
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The part of a node.
    pub fn of_node(&self, node: usize) -> PathBuf {
        self.0.join(format!("{NODE}{node:05}"))
    }

    /// Makes it, readable for its owner alone: a node may have other users.
    pub(super) fn create(&self) -> Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.0).map_err(Error::file(&self.0))
    }

    /// The parts that this node has.
    pub(super) fn parts(&self) -> Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(Error::file(&self.0))?,
        };
        let paths: io::Result<Vec<PathBuf>> =
            entries.map(|entry| entry.map(|e| e.path())).collect();
        let mut paths = paths.map_err(Error::file(&self.0))?;
        let is_part = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(NODE))
        };
        paths.retain(is_part);
        paths.sort();
        Ok(paths)
    }

    /// Removes what this node has, and nothing that is no checkpoint. One rank of a node calls it.
    pub(crate) fn clear(&self) {
        // Nodes may share the file system, and then remove the same. What cannot be removed is older than the run's own
        // checkpoints, so nothing is copied from it.
        for part in self.parts().unwrap_or_default() {
            let _ = checkpoint::clear(&FileSystem, &part);
        }
        let _ = fs::remove_dir(&self.0);
    }
}
