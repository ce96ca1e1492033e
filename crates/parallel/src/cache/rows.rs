//! The rows of a pass over new tokens.

use super::SequenceCache;
use std::rc::Rc;
use tensor::{Device, Error, Result, Tensor};

/// New tokens of a sequence, which follow those that its cache holds.
#[derive(Clone, Debug)]
pub struct NewTokens {
    /// What the sequence has computed.
    pub cache: SequenceCache,
    /// The new tokens.
    pub ids: Vec<u32>,
    /// How many of the last ones have outputs, at least 1: each row of a micro-batch has as many as the one that asks for most.
    pub outputs: usize,
}

/// The rows of a pass: equally many new tokens of each sequence.
#[derive(Clone, Debug)]
pub(crate) struct CachedRows(Rc<[NewTokens]>);

impl CachedRows {
    /// Rows of these sequences.
    ///
    /// # Errors
    /// [`Error::Invalid`] for no row, unequally many tokens, and no token.
    pub(crate) fn new(rows: &[NewTokens]) -> Result<CachedRows> {
        let count = rows.first().map_or(0, |row| row.ids.len());
        match count > 0 && rows.iter().all(|row| row.ids.len() == count) {
            true => Ok(CachedRows(rows.into())),
            false => {
                let counts: Vec<usize> = rows.iter().map(|row| row.ids.len()).collect();
                let found = format!("rows of {counts:?} new tokens");
                let needed = "at least one row, and equally many in each, at least 1";
                Err(Error::invalid("cached rows", found, needed))
            }
        }
    }

    /// The rows.
    pub(crate) fn rows(&self) -> &[NewTokens] {
        &self.0
    }

    /// New tokens of each row.
    pub(crate) fn num_new(&self) -> usize {
        self.0[0].ids.len()
    }

    /// New tokens of each row after which outputs are asked for.
    pub(crate) fn num_outputs(&self) -> usize {
        let most = self.0.iter().map(|row| row.outputs).max();
        most.unwrap_or(1).clamp(1, self.num_new())
    }

    /// The place of each row's first new token in its sequence, if it is the same in all rows.
    pub(crate) fn common_place(&self) -> Option<usize> {
        let first = self.0[0].cache.len();
        let same = self.0.iter().all(|row| row.cache.len() == first);
        same.then_some(first)
    }

    /// Checks that an operation that is about to run has these rows and tokens.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub(crate) fn check(&self, operation: &str, rows: usize, tokens: usize) -> Result<()> {
        match (rows, tokens) == (self.0.len(), self.num_new()) {
            true => Ok(()),
            false => {
                let needed = format!("{} of {}, the new tokens", self.0.len(), self.num_new());
                let found = format!("{rows} rows of {tokens} tokens");
                Err(Error::invalid(operation, found, needed))
            }
        }
    }

    /// A number for each new token, of what `of_sequence` returns for all tokens of a sequence.
    ///
    /// # Shapes
    /// The result: rows x new tokens, u32.
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(crate) fn each(
        &self,
        device: &Device,
        of_sequence: impl Fn(&[u32]) -> Vec<u32>,
    ) -> Result<Tensor> {
        let of_row = |row: &NewTokens| {
            let all = of_sequence(&row.cache.followed_by(&row.ids));
            all[row.cache.len()..].to_vec()
        };
        let numbers: Vec<u32> = self.0.iter().flat_map(of_row).collect();
        Tensor::from_slice(device, &[self.0.len(), self.num_new()], &numbers)
    }

    /// All layers have appended the new tokens' keys and values.
    ///
    /// # Errors
    /// As [`SequenceCache::commit`].
    pub(crate) fn commit(&self) -> Result<()> {
        self.0.iter().try_for_each(|row| row.cache.commit(&row.ids))
    }
}
