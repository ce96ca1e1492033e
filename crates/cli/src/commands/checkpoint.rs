//! `fascicle checkpoint`.
use crate::failure::{Failure, Outcome};
use clap::Subcommand;
use std::path::{Path, PathBuf};
use train::checkpoint::Reader;
/// x
#[derive(Debug, Subcommand)]
pub(crate) enum Checkpoint {
    /// Tells
    Inspect { /// d
        dir: PathBuf },
}
impl Checkpoint { pub(crate) fn run(&self) -> Outcome { Ok(()) } }
pub(super) fn newest(dir: &Path) -> Outcome<PathBuf> { Ok(dir.into()) }
pub(super) fn open(path: &Path) -> Outcome<Reader> { Reader::open(path).map_err(Failure::usage) }
