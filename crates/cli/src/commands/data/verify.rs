//! `fascicle data verify`.

use super::progress::ByteBar;
use crate::{
    failure::{Failure, Outcome},
    numbers::{counted, grouped},
    output,
};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use train::data::{Source, TokenFolder};

/// Arguments of `fascicle data verify`.
#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// A token folder
    dir: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Verified {
    tokens: u64,
    documents: u64,
    shards: usize,
    vocabulary_size: u64,
    tokenizer: String,
}

impl Verify {
    pub(super) fn run(&self) -> Outcome {
        let found = Source::detect(&self.dir, &[], None).map_err(train::Error::from)?;
        if !matches!(found, Source::TokenFolder(_)) {
            return Err(Failure::usage(format!(
                "data verify: {} is no token folder, needs one with an index, as `fascicle data tokenize` writes it",
                self.dir.display()
            )));
        }
        let folder = TokenFolder::open(&self.dir).map_err(train::Error::from)?;
        let index = folder.index();
        let total = index.shards.iter().map(|shard| shard.bytes).sum();
        let bar = ByteBar::new("verifying", total);
        let verified = folder.verify(|bytes| {
            bar.add(bytes);
            Ok(())
        });
        bar.leave();
        verified.map_err(train::Error::from)?;
        let verified = Verified {
            tokens: index.tokens,
            documents: index.documents,
            shards: index.shards.len(),
            vocabulary_size: index.vocabulary_size,
            tokenizer: index.tokenizer.name.clone(),
        };
        match self.json {
            true => output::json(&verified),
            false => output::result(&format!(
                "{} is whole: {} tokens of {} in {}, tokenizer {} of {} tokens",
                self.dir.display(),
                grouped(verified.tokens),
                counted(verified.documents as usize, "document"),
                counted(verified.shards, "shard"),
                verified.tokenizer,
                grouped(verified.vocabulary_size)
            )),
        }
    }
}
