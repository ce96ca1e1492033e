//! The log-likelihoods of many sequences.

use super::{
    ScoredSequence, SequenceScore,
    beginnings::{Beginning, beginnings},
    rows::{self, Row},
};
use crate::{
    Result,
    architecture::Text,
    generate::{chooser, relay, within},
};
use parallel::{Pipeline, cache::SequenceCache};

/// The most sequences of a pass.
pub const MOST_BATCH: usize = 4096;

/// Scores sequences with the model of a pipeline, which [`generate::load`](crate::generate::load) returns.
///
/// Every rank makes the same calls and gets the same scores. Ranks of Data and Context, and of Z, hold the same sequences, as in
/// generation. A score does not depend on `batch` or on the other sequences, bit for bit on devices whose sums have one order for
/// every number of rows, as on the CPU.
///
/// # Cost
/// A pass of the model over all tokens of `batch` sequences. Neighbours that begin alike, such as the choices of a question, run their
/// beginning once, if the model is [incremental](parallel::Model::is_incremental): its keys and values are then kept until all have
/// been scored. One rank computes the log-probabilities in f64 on its host: `vocabulary` exponentials for each predicted token.
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
        let most = match self.pipeline.model().is_incremental() {
            true => self.batch,
            false => 1,
        };
        let mut all = beginnings(sequences, most);
        // The longest ones come first: if memory is too small, that is known at once.
        let longest = |one: &Beginning| {
            let lengths = one.members.iter();
            lengths.map(|index| sequences[*index].inputs().len()).max()
        };
        all.sort_by_key(|one| std::cmp::Reverse(longest(one)));
        let (shared, alone): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.shared > 0);
        let mut scores = vec![None; sequences.len()];
        for pass in self.passes(shared).into_iter().chain(self.passes(alone)) {
            let rows = self.rows(&pass, sequences)?;
            let num_rows = rows.len();
            let found = rows::run(self.pipeline, rows, self.text)?;
            let context = self.pipeline.context();
            for (index, score) in relay(context.world(), chooser(context), || Ok(found))? {
                scores[index] = Some(score);
            }
            progress(num_rows);
        }
        Ok(scores.into_iter().flatten().collect())
    }

    // As many as the batch has room for, in their order.
    fn passes(&self, all: Vec<Beginning>) -> Vec<Vec<Beginning>> {
        let mut passes: Vec<Vec<Beginning>> = Vec::new();
        let mut room = 0;
        for one in all {
            let needed = one.members.len();
            match passes.last_mut() {
                Some(pass) if needed <= room => pass.push(one),
                _ => {
                    room = self.batch;
                    passes.push(vec![one]);
                }
            }
            room -= needed;
        }
        passes
    }

    // The rows of a pass, behind what they share, which is computed here.
    fn rows<'s>(
        &self,
        pass: &[Beginning],
        sequences: &'s [ScoredSequence],
    ) -> Result<Vec<Row<'s>>> {
        let row = |index: &usize| Row::whole(*index, &sequences[*index]);
        if pass.iter().all(|one| one.shared == 0) {
            return Ok(pass.iter().flat_map(|one| &one.members).map(row).collect());
        }
        let begun: Vec<_> = pass
            .iter()
            .map(|one| (one, self.pipeline.sequence()))
            .collect();
        let first = |(one, cache): &(&Beginning, SequenceCache)| {
            row(&one.members[0]).beginning(one.shared, cache.clone())
        };
        rows::run(self.pipeline, begun.iter().map(first).collect(), self.text)?;
        let mut rows = Vec::new();
        for (one, cache) in begun {
            for index in &one.members {
                let own = cache.beginning(one.shared)?;
                rows.push(row(index).after(own));
            }
        }
        Ok(rows)
    }
}

impl std::fmt::Debug for Scorer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scorer({} sequences at a time)", self.batch)
    }
}
