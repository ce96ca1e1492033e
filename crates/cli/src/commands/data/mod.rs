//! `fascicle data`: texts to token folders.

mod progress;
mod tokenize;
mod verify;

use crate::failure::Outcome;
use clap::Subcommand;

/// Commands about data.
#[derive(Debug, Subcommand)]
pub(crate) enum Data {
    /// Tokenise texts into a folder of token shards, from which runs train
    ///
    /// Reads plain text, JSON lines (.jsonl), both also compressed (.zst), and tables (.parquet, in a build with the feature
    /// `parquet`). A file is one document; a line or a row of the others is one. Documents are encoded on all cores and written
    /// in their order, so the tokens do not depend on the number of threads. A document that was read before is left out.
    /// Everything is read back and compared before the folder gets its name.
    Tokenize(tokenize::Tokenize),
    /// Compare every shard of a token folder with its checksum and its vocabulary
    Verify(verify::Verify),
}

impl Data {
    /// Does it.
    pub(crate) fn run(&self) -> Outcome {
        match self {
            Data::Tokenize(tokenize) => tokenize.run(),
            Data::Verify(verify) => verify.run(),
        }
    }
}
