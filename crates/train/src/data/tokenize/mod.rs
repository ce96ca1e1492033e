//! From texts to a token folder, in bounded memory and on all cores.
//!
//! Read in this order: [`TokenizeInput`] (the files, and their formats), `documents` (their documents, one after the other),
//! `duplicates` (documents that were read before), `pieces` (documents in parts of bounded size), `encoding` (parts to tokens,
//! on several threads, in order), `samples` (parts that are read back) and [`tokenize`] (all of it).
//!
//! The bytes that are written depend on the inputs, their order and the options, and not on the number of threads.

mod documents;
mod duplicates;
mod encoding;
mod inputs;
mod json_lines;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(not(feature = "parquet"))]
#[path = "no_parquet.rs"]
mod parquet;
mod pieces;
mod samples;
mod text;
mod zstd;

use std::path::Path;

use super::{Error, FolderWriter, Result, TokenFolder, Tokenizer, TokenizerChoice};
use crate::Stop;
use documents::Skipped;
use encoding::{Encoded, Reading};
pub use inputs::TokenizeInput;
pub(crate) use json_lines::reason as json_reason;
use pieces::Piece;
use samples::Samples;

/// How documents are read and written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenizeOptions {
    /// The key of a line, and the column of a table, that hold a document.
    pub field: String,
    /// What follows each document.
    pub document_end: DocumentEnd,
    /// Whether each line of a text file is a document; otherwise the file is.
    pub splits_lines: bool,
    /// Whether documents that were read before are written again.
    pub keeps_duplicates: bool,
    /// Whether a long document may be cut where its tokens then differ from those of the whole.
    pub allows_cuts: bool,
    /// Threads that encode.
    pub threads: usize,
    /// Tokens of a shard.
    pub shard_tokens: u64,
}

impl Default for TokenizeOptions {
    fn default() -> TokenizeOptions {
        TokenizeOptions {
            field: "text".into(),
            document_end: DocumentEnd::Auto,
            splits_lines: false,
            keeps_duplicates: false,
            allows_cuts: false,
            threads: 1,
            shard_tokens: 1 << 28,
        }
    }
}

/// What follows each document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DocumentEnd {
    /// The tokenizer's end of text, or a line end if it has none.
    #[default]
    Auto,
    /// Nothing.
    None,
    /// This token.
    Token(u32),
}

/// What the work is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenizePhase {
    /// Finding the characters of the texts; in bytes of the inputs.
    Characters,
    /// Encoding the texts; in bytes of the inputs.
    Encoding,
    /// Reading the shards back.
    Verifying {
        /// Bytes of all shards.
        total: u64,
    },
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenizeReport {
    /// Documents written.
    pub documents: u64,
    /// Bytes of their text.
    pub text_bytes: u64,
    /// Documents left out because they were read before.
    pub duplicates: u64,
    /// Bytes of memory that the hashes of the documents took.
    pub hash_bytes: u64,
    /// Documents left out because they hold nothing.
    pub empty: u64,
    /// Files of folders left out because they were not UTF-8.
    pub skipped_files: u64,
    /// Places at which a document was cut although its tokens change there.
    pub inexact_cuts: u64,
    /// Parts of documents that were read back and compared with their texts.
    pub samples: usize,
    /// Those whose tokens decode to their text; fewer where the tokenizer loses some, such as letters' case.
    pub decoded: usize,
}

/// Shows how far the work is: the phase, and bytes done since the last call. Called from several threads.
pub type TokenizeProgress<'a> = &'a (dyn Fn(TokenizePhase, u64) + Sync);

/// Whether a panic on this thread is about to become an error: the library for tables has some for damaged ones. The program's
/// hook is silent about them.
#[doc(hidden)]
pub fn panic_becomes_error() -> bool {
    parquet::is_guarded()
}

/// Makes the tokenizer for inputs; the characters are those of all documents, which are read for it.
///
/// Returns nothing if `stop` was asked.
///
/// # Errors
/// Those of [`TokenizerChoice::read`] and of reading the inputs.
pub fn tokenizer_for(
    choice: &TokenizerChoice,
    inputs: &[TokenizeInput],
    options: &TokenizeOptions,
    (stop, progress): (&Stop, TokenizeProgress<'_>),
) -> Result<Option<Tokenizer>> {
    if *choice != TokenizerChoice::Characters {
        return choice.read().map(Some);
    }
    let mut is_used = vec![false; char::MAX as usize + 1];
    is_used['\n' as usize] = options.document_end == DocumentEnd::Auto;
    let mut skipped = Skipped::default();
    let read = |bytes| progress(TokenizePhase::Characters, bytes);
    for input in inputs {
        documents::read(input, options, &mut skipped, &read, &mut |part| {
            part.text
                .chars()
                .for_each(|letter| is_used[letter as usize] = true);
            Ok(!stop.asked())
        })?;
    }
    let letters = (0..=char::MAX as u32).filter(|letter| is_used[*letter as usize]);
    let table: String = letters.filter_map(char::from_u32).collect();
    match table.is_empty() && !stop.asked() {
        true => Err(inputs::nothing(inputs)),
        false => Ok((!stop.asked()).then(|| Tokenizer::characters(&[table]))),
    }
}

/// Encodes the documents of `inputs` into a token folder at `target`, reads it back, and gives it its name.
///
/// Returns nothing if `stop` was asked; then there is nothing at `target`.
///
/// # Cost
/// Memory: for each thread up to four parts of a quarter of a MiB with their tokens, a line or a cell of a
/// table (64 MiB at most), and 16 to 40 bytes per document for the hashes that find duplicates.
/// # Errors
/// Those of reading the inputs, of [`Tokenizer::encode`] and of [`FolderWriter`]; [`Error::Setting`] for a token that is to end
/// documents and is outside the vocabulary; [`Error::Inexact`] for a document that cannot be cut;
/// [`Error::TokenFolder`] if what was written is not what was encoded.
pub fn tokenize(
    inputs: &[TokenizeInput],
    tokenizer: &Tokenizer,
    target: &Path,
    options: &TokenizeOptions,
    (stop, progress): (&Stop, TokenizeProgress<'_>),
) -> Result<Option<(TokenFolder, TokenizeReport)>> {
    let (ending, end_token) = ending(tokenizer, options.document_end)?;
    let mut writer = FolderWriter::create(target, tokenizer, end_token, options.shard_tokens)?;
    let mut samples = Samples::default();
    let reading = Reading {
        inputs,
        tokenizer,
        options,
        stop,
        progress: &|bytes| progress(TokenizePhase::Encoding, bytes),
    };
    let mut report = encoding::run(&reading, &ending, |encoded: Encoded| {
        samples.keep(&encoded, writer.num_tokens());
        writer.push(&encoded.tokens)?;
        if encoded.ends_document {
            writer.end_document();
        }
        Ok(())
    })?;
    if stop.asked() {
        return Ok(None);
    }
    if report.documents == 0 {
        return Err(inputs::nothing(inputs));
    }
    let finished = writer.finish()?;
    let total = finished
        .index()
        .shards
        .iter()
        .map(|shard| shard.bytes)
        .sum();
    let mut is_stopped = false;
    let verified = finished.verify(|bytes| {
        progress(TokenizePhase::Verifying { total }, bytes);
        is_stopped = stop.asked();
        match is_stopped {
            true => Err(Error::Empty {
                name: String::new(),
            }),
            false => Ok(()),
        }
    });
    if is_stopped {
        return Ok(None);
    }
    verified?;
    samples.check(&finished, tokenizer, &mut report)?;
    Ok(Some((finished.publish()?, report)))
}

// The tokens behind each document, and the one that marks its end, if one does.
fn ending(tokenizer: &Tokenizer, choice: DocumentEnd) -> Result<(Vec<u32>, Option<u32>)> {
    match choice {
        DocumentEnd::None => Ok((Vec::new(), None)),
        DocumentEnd::Auto => Ok((tokenizer.ending()?, tokenizer.document_end())),
        DocumentEnd::Token(token) if (token as usize) < tokenizer.vocabulary_size() => {
            Ok((vec![token], Some(token)))
        }
        DocumentEnd::Token(token) => Err(Error::Bound {
            setting: "document end",
            found: token.to_string(),
            needed: format!(
                "a token below {}, the vocabulary",
                tokenizer.vocabulary_size()
            ),
        }),
    }
}

#[cfg(test)]
mod tests;
