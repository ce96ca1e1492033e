//! `fascicle diff`: where two runs part.

use crate::{
    failure::{Failure, Outcome},
    output,
};
use clap::Args;
use std::path::PathBuf;

/// Arguments of `fascicle diff`.
#[derive(Args, Debug)]
pub(crate) struct Diff {
    /// A run directory
    a: PathBuf,
    /// The run directory to compare it with
    b: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Diff {
    /// Prints what differs first, and fails if anything does.
    pub(crate) fn run(&self) -> Outcome {
        let found = train::digest::diff(&self.a, &self.b)?;
        match self.json {
            true => output::json(&found)?,
            false => output::result(&found.to_string())?,
        }
        match found.is_equal() {
            true => Ok(()),
            false => Err(Failure::run("the runs differ")),
        }
    }
}
