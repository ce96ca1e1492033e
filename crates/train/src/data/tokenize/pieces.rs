//! Documents in pieces of bounded size, which have the tokens of the whole.

use super::documents::Part;
use crate::data::tokenizer::{Cut, NEIGHBOURHOOD, PIECE_BYTES};
use crate::data::{Error, Result, Tokenizer};

/// The longest piece, where nothing shorter can be cut off.
const MOST_PIECE_BYTES: usize = 8 << 20;

/// A piece of a document, to be encoded as one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) ends_document: bool,
}

/// Cuts the parts of documents into pieces.
pub(super) struct Cutter<'a> {
    tokenizer: &'a Tokenizer,
    allows_cuts: bool,
    /// What is not cut off yet.
    rest: String,
    /// The size up to which a cut is looked for; it grows where there is none.
    limit: usize,
    /// Bytes of the document that are cut off.
    position: u64,
    pub(super) inexact_cuts: u64,
}

impl<'a> Cutter<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer, allows_cuts: bool) -> Cutter<'a> {
        Cutter {
            tokenizer,
            allows_cuts,
            rest: String::new(),
            limit: PIECE_BYTES,
            position: 0,
            inexact_cuts: 0,
        }
    }

    /// Adds a part of the document in hand, of the file `name`, and hands the pieces that are complete to `sink`.
    pub(super) fn push(
        &mut self,
        part: &Part<'_>,
        name: &str,
        sink: &mut dyn FnMut(Piece) -> Result<()>,
    ) -> Result<()> {
        self.rest += part.text;
        // What follows a cut must be known to try it.
        while self.rest.len() > self.limit + NEIGHBOURHOOD {
            let Some(at) = self.cut(name)? else { continue };
            let rest = self.rest.split_off(at);
            let text = std::mem::replace(&mut self.rest, rest);
            (self.limit, self.position) = (PIECE_BYTES, self.position + at as u64);
            sink(Piece {
                text,
                ends_document: false,
            })?;
        }
        if part.ends {
            (self.limit, self.position) = (PIECE_BYTES, 0);
            sink(Piece {
                text: std::mem::take(&mut self.rest),
                ends_document: true,
            })?;
        }
        Ok(())
    }

    // The place of a cut, or nothing if more text may have one.
    fn cut(&mut self, name: &str) -> Result<Option<usize>> {
        match self.tokenizer.cut(&self.rest, self.limit)? {
            Cut { at, is_exact: true } => Ok(Some(at)),
            _ if self.limit < MOST_PIECE_BYTES => {
                self.limit *= 2;
                Ok(None)
            }
            cut if self.allows_cuts => {
                self.inexact_cuts += 1;
                Ok(Some(cut.at))
            }
            _ => Err(Error::Inexact {
                name: name.to_owned(),
                position: self.position,
                bytes: self.limit,
                tokenizer: self.tokenizer.name().to_owned(),
            }),
        }
    }
}
