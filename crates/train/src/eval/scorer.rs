//! The log-likelihoods of many sequences.

use super::{ScoredSequence, SequenceScore, rows};
use crate::{
    Result,
    architecture::Text,
    generate::{chooser, relay, within},
};
use parallel::Pipeline;

/// The most sequences of a pass.
pub const MOST_BATCH: usize = 4096;

/// Scores sequences with the model of a pipeline, which [`generate::load`](crate::generate::load) returns.
///
/// Every rank makes the same calls and gets the same scores. Ranks of Data and Context, and of Z, hold the same sequences, as in
/// generation. A score does not depend on `batch` or on the other sequences, bit for bit on devices whose sums have one order for
/// every number of rows, as on the CPU.
///
/// # Cost
/// A pass of the model over all tokens of `batch` sequences; keys and values are not kept between passes. One rank computes the
/// log-probabilities in f64 on its host: `vocabulary` exponentials for each predicted token.
#[derive(Clone, Copy)]
pub struct Scorer<'a> {
    pipeline: &'a Pipeline,
    text: Text,
    batch: usize,
}

impl<'a> Scorer<'a> {
    /// A scorer for a model that reads `text`, which runs at most `batch` sequences at a time.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) for a batch of 0, and for one beyond [`MOST_BATCH`].
    pub fn new(pipeline: &'a Pipeline, text: Text, batch: usize) -> Result<Scorer<'a>> {
        within("batch", batch, 1, MOST_BATCH)?;
        Ok(Scorer {
            pipeline,
            text,
            batch,
        })
    }

    /// How the model reads text.
    pub fn text(&self) -> Text {
        self.text
    }

    /// The most sequences of a pass.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// The scores of the sequences, in their order. Calls `progress` after each pass with the number of sequences in it.
    /// Collective.
    ///
    /// # Errors
    /// [`Error::Parallel`](crate::Error::Parallel) from layers and collectives;
    /// [`Error::Setting`](crate::Error::Setting) for logits that are not numbers.
    pub fn score(
        &self,
        sequences: &[ScoredSequence],
        progress: &mut dyn FnMut(usize),
    ) -> Result<Vec<SequenceScore>> {
        // The longest ones come first: if memory is too small, that is known at once.
        let mut order: Vec<usize> = (0..sequences.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(sequences[*index].inputs().len()));
        let mut scores = vec![None; sequences.len()];
        for indices in order.chunks(self.batch) {
            let own: Vec<&ScoredSequence> =
                indices.iter().map(|index| &sequences[*index]).collect();
            let found = rows::run(self.pipeline, &own, self.text)?;
            let context = self.pipeline.context();
            let found = relay(context.world(), chooser(context), || Ok(found))?;
            for (index, score) in indices.iter().zip(found) {
                scores[*index] = Some(score);
            }
            progress(indices.len());
        }
        Ok(scores.into_iter().flatten().collect())
    }
}

impl std::fmt::Debug for Scorer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scorer({} sequences at a time)", self.batch)
    }
}
