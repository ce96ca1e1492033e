//! `fascicle data tokenize`.

use super::progress::ByteBar;
use crate::{
    failure::{Failure, Outcome},
    interrupt, machine,
    numbers::{MOST_THREADS, count, counted, duration, grouped},
    output,
};
use clap::Args;
use hal::error::Bytes;
use serde::Serialize;
use std::{
    path::PathBuf,
    sync::OnceLock,
    time::{Duration, Instant},
};
use train::data::{
    DocumentEnd, Index, TokenizeInput, TokenizeOptions, TokenizePhase, TokenizeReport,
    TokenizerChoice, tokenize, tokenizer_for,
};

/// The most tokens of a shard: 16 GiB of u32.
const MOST_SHARD_TOKENS: usize = 1 << 32;

/// Arguments of `fascicle data tokenize`.
#[derive(Args, Debug)]
pub(crate) struct Tokenize {
    /// Files and folders of text; a folder's files are read in the order of their names
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// The folder to write; it does not exist yet
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// A tokenizer.json (in a build with the feature `tokenizers`), `bytes`, or `characters`: those of the texts
    #[arg(long, value_name = "FILE|bytes|characters", default_value = "bytes")]
    tokenizer: String,
    /// The key of a JSON line, and the column of a table, that hold the text
    #[arg(long, value_name = "NAME", default_value = "text")]
    field: String,
    /// Extensions of the files that are read in a folder, with or without .zst behind them
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = ["txt", "md", "jsonl", "parquet"])]
    extensions: Vec<String>,
    /// What follows each document: `auto` (the tokenizer's end of text, or a line end if it has none), `none`, or the number of
    /// a token
    #[arg(long, value_name = "auto|none|ID", default_value = "auto", value_parser = document_end)]
    document_end: DocumentEnd,
    /// Each line of a text file is a document
    #[arg(long)]
    split_lines: bool,
    /// Keep documents that were read before; no hashes are then held in memory
    #[arg(long)]
    keep_duplicates: bool,
    /// Cut a long document even where its tokens then differ from those of the whole
    #[arg(long)]
    allow_cuts: bool,
    /// Threads that encode; defaults to one for each core
    #[arg(long, value_name = "N", value_parser = count::<MOST_THREADS>)]
    threads: Option<usize>,
    /// Tokens of a shard
    #[arg(long, value_name = "N", default_value = "268435456", value_parser = count::<MOST_SHARD_TOKENS>)]
    shard_tokens: usize,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn document_end(text: &str) -> Result<DocumentEnd, String> {
    match text {
        "auto" => Ok(DocumentEnd::Auto),
        "none" => Ok(DocumentEnd::None),
        id => id
            .parse()
            .map(DocumentEnd::Token)
            .map_err(|_| "needs auto, none or the number of a token".into()),
    }
}

#[derive(Serialize)]
struct Tokenized {
    path: PathBuf,
    tokens: u64,
    documents: u64,
    shards: usize,
    text_bytes: u64,
    duplicates: u64,
    hash_bytes: u64,
    empty: u64,
    skipped_files: u64,
    inexact_cuts: u64,
    samples: usize,
    decoded: usize,
    seconds: f64,
}

impl Tokenize {
    pub(super) fn run(&self) -> Outcome {
        if self.out.symlink_metadata().is_ok() {
            return Err(Failure::usage(format!(
                "--out {}: exists already, needs a new name",
                self.out.display()
            )));
        }
        let choice = match self.tokenizer.as_str() {
            "bytes" => TokenizerChoice::Bytes,
            "characters" => TokenizerChoice::Characters,
            file => TokenizerChoice::File(file.into()),
        };
        let options = TokenizeOptions {
            field: self.field.clone(),
            document_end: self.document_end,
            splits_lines: self.split_lines,
            keeps_duplicates: self.keep_duplicates,
            allows_cuts: self.allow_cuts,
            threads: self.threads.unwrap_or_else(machine::cores),
            shard_tokens: self.shard_tokens as u64,
        };
        let started = Instant::now();
        let inputs = TokenizeInput::find(&self.inputs, &self.extensions);
        let inputs = inputs.map_err(train::Error::from)?;
        let total = inputs.iter().map(|input| input.bytes).sum();
        let (reading, encoding, verifying) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let progress = |phase, bytes| {
            let bar = match phase {
                TokenizePhase::Characters => reading.get_or_init(|| ByteBar::new("reading", total)),
                TokenizePhase::Encoding => {
                    reading.get().map(ByteBar::leave);
                    encoding.get_or_init(|| ByteBar::new("encoding", total))
                }
                TokenizePhase::Verifying { total } => {
                    encoding.get().map(ByteBar::leave);
                    verifying.get_or_init(|| ByteBar::new("verifying", total))
                }
            };
            bar.add(bytes);
        };
        let stop = interrupt::watch_plainly("stopping; nothing is kept", || ());
        let watch = (&*stop, &progress as train::data::TokenizeProgress<'_>);
        let made =
            tokenizer_for(&choice, &inputs, &options, watch).and_then(
                |tokenizer| match tokenizer {
                    Some(tokenizer) => tokenize(&inputs, &tokenizer, &self.out, &options, watch),
                    None => Ok(None),
                },
            );
        for bar in [&reading, &encoding, &verifying] {
            bar.get().map(ByteBar::leave);
        }
        let Some((folder, report)) = made.map_err(train::Error::from)? else {
            return Err(Failure::Stopped);
        };
        let lines = summary(folder.index(), &report, started.elapsed());
        lines.iter().for_each(|line| output::note(line));
        match self.json {
            true => output::json(&self.tokenized(folder.index(), &report, started.elapsed())),
            false => output::path(&self.out),
        }
    }

    fn tokenized(&self, index: &Index, report: &TokenizeReport, time: Duration) -> Tokenized {
        Tokenized {
            path: self.out.clone(),
            tokens: index.tokens,
            documents: index.documents,
            shards: index.shards.len(),
            text_bytes: report.text_bytes,
            duplicates: report.duplicates,
            hash_bytes: report.hash_bytes,
            empty: report.empty,
            skipped_files: report.skipped_files,
            inexact_cuts: report.inexact_cuts,
            samples: report.samples,
            decoded: report.decoded,
            seconds: time.as_secs_f64(),
        }
    }
}

// What a person wants to know of the folder. A line about what was left out comes only if something was.
fn summary(index: &Index, report: &TokenizeReport, time: Duration) -> Vec<String> {
    let bytes = |bytes: u64| Bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
    let mut lines = vec![format!(
        "{} tokens ({}) of {}, {} of text, in {}; tokenizer {}; {}, {} tokens/s",
        grouped(index.tokens),
        index.token_type.name(),
        counted(index.documents as usize, "document"),
        bytes(report.text_bytes),
        counted(index.shards.len(), "shard"),
        index.tokenizer.name,
        duration(time),
        grouped((index.tokens as f64 / time.as_secs_f64().max(1e-3)) as u64)
    )];
    let mut left_out = Vec::new();
    for (number, what) in [
        (report.duplicates, "duplicate"),
        (report.empty, "empty document"),
        (report.skipped_files, "file without UTF-8 text"),
    ] {
        if number > 0 {
            left_out.push(
                counted(number as usize, what)
                    .replace("file without UTF-8 texts", "files without UTF-8 text"),
            );
        }
    }
    if !left_out.is_empty() {
        lines.push(format!("left out: {}", left_out.join(", ")));
    }
    if report.hash_bytes > 0 {
        lines.push(format!(
            "hashes to find duplicates took {} of memory",
            bytes(report.hash_bytes)
        ));
    }
    if report.inexact_cuts > 0 {
        lines.push(format!(
            "warning: {} where the tokens differ from those of the whole document",
            counted(report.inexact_cuts as usize, "cut")
        ));
    }
    lines.push(format!(
        "read back: checksums of all shards, and {}, of which {} to their text",
        counted(report.samples, "sample"),
        match report.decoded {
            all if all == report.samples => "all decode".to_owned(),
            1 => "1 decodes".to_owned(),
            some => format!("{some} decode"),
        }
    ));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_document_ends() {
        assert_eq!(document_end("auto"), Ok(DocumentEnd::Auto));
        assert_eq!(document_end("none"), Ok(DocumentEnd::None));
        assert_eq!(document_end("50256"), Ok(DocumentEnd::Token(50256)));
        assert!(document_end("-1").is_err() && document_end("eot").is_err());
    }
}
