//! Pieces that are read back at the end and compared with their texts.

use super::{Encoded, TokenizeReport};
use crate::data::{Error, FinishedShards, Result, Tokenizer};

/// The longest text that is kept for a comparison.
const MOST_BYTES: usize = 1 << 20;

/// The first piece, the second, the fourth and so on: a few dozen, however many there are.
#[derive(Default)]
pub(super) struct Samples {
    num_pieces: u64,
    kept: Vec<Sample>,
}

struct Sample {
    text: String,
    first_token: u64,
    num_tokens: usize,
}

impl Samples {
    /// Keeps a piece whose turn it is, and which is about to be written behind `first_token` tokens.
    pub(super) fn keep(&mut self, encoded: &Encoded, first_token: u64) {
        self.num_pieces += 1;
        let text = &encoded.piece.text;
        if self.num_pieces.is_power_of_two() && text.len() <= MOST_BYTES {
            self.kept.push(Sample {
                text: text.clone(),
                first_token,
                num_tokens: encoded.tokens.len(),
            });
        }
    }

    /// Compares what is on the disk with the kept texts.
    pub(super) fn check(
        &self,
        finished: &FinishedShards,
        tokenizer: &Tokenizer,
        report: &mut TokenizeReport,
    ) -> Result<()> {
        let written = finished.tokens()?;
        for sample in &self.kept {
            let first = sample.first_token as usize;
            let mut found = Vec::new();
            written.extend_into(first..first + sample.num_tokens, &mut found)?;
            let needed = tokenizer.encode_piece(&sample.text)?;
            // Behind them are those that end a document.
            if !found.starts_with(&needed) {
                return Err(Error::Unequal {
                    first: sample.first_token,
                    num_tokens: needed.len(),
                });
            }
            report.samples += 1;
            report.decoded += usize::from(tokenizer.decode(&needed) == sample.text);
        }
        Ok(())
    }
}
