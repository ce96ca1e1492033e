//! What one pass of the model runs: micro-batches of rows of equally many tokens.

use super::{ScoredSequence, SequenceScore};
use crate::{
    Result,
    architecture::Text,
    generate::{check_logits, chooser, log_probabilities},
};
use parallel::{
    Batch, DTensor, MicroBatch, Pass, Pipeline, Wires,
    cache::{NewTokens, SequenceCache},
    layers::whole_logits,
};
use tensor::{Tensor, Var, ops};

/// The most logits that lie in the host's memory at a time, so that a large vocabulary does not fill it.
const MOST_LOGITS: usize = 1 << 22;

/// A row of a pass: the tokens of a sequence that follow those which its cache holds, if it has one.
#[derive(Clone, Debug)]
pub(super) struct Row<'a> {
    /// The sequence, by its index.
    sequence: usize,
    tokens: &'a [u32],
    predicted: &'a [u32],
    cache: Option<SequenceCache>,
}

impl<'a> Row<'a> {
    /// A whole sequence.
    pub(super) fn whole(index: usize, sequence: &'a ScoredSequence) -> Row<'a> {
        Row {
            sequence: index,
            tokens: sequence.inputs(),
            predicted: sequence.predicted(),
            cache: None,
        }
    }

    /// The first inputs of a sequence, which a pass leaves in a cache that is new.
    pub(super) fn beginning(self, count: usize, cache: SequenceCache) -> Row<'a> {
        Row {
            tokens: &self.tokens[..count],
            predicted: &[],
            cache: Some(cache),
            ..self
        }
    }

    /// What follows the inputs that a cache holds.
    pub(super) fn after(self, cache: SequenceCache) -> Row<'a> {
        Row {
            tokens: &self.tokens[cache.len()..],
            cache: Some(cache),
            ..self
        }
    }

    fn new_tokens(&self) -> Option<NewTokens> {
        let (cache, ids) = (self.cache.clone()?, self.tokens.to_vec());
        let outputs = self.predicted.len().max(1);
        Some(NewTokens {
            cache,
            ids,
            outputs,
        })
    }
}

/// Runs rows, all or none of which have caches, and scores them, each with the index of its sequence, on the rank that has the logits;
/// elsewhere returns nothing. Collective.
///
/// No row is padded: rows share a micro-batch if they have equally many tokens, so each runs the sums that it runs alone.
///
/// # Errors
/// Those of layers, messages and collectives, and of [`check_logits`].
pub(super) fn run(
    pipeline: &Pipeline,
    mut rows: Vec<Row<'_>>,
    text: Text,
) -> Result<Vec<(usize, SequenceScore)>> {
    let context = pipeline.context();
    // At least one micro-batch for each stage, if there are enough rows, so that the stages work at the same time.
    let each = rows
        .len()
        .div_ceil(context.degree(grid::Axis::Pipeline))
        .max(1);
    rows.sort_by_key(|row| std::cmp::Reverse(row.tokens.len()));
    let alike = rows.chunk_by(|a, b| a.tokens.len() == b.tokens.len());
    let groups: Vec<&[Row<'_>]> = alike.flat_map(|alike| alike.chunks(each)).collect();
    let batch = batch(pipeline, &groups)?;
    let new_tokens: Option<Vec<Vec<NewTokens>>> = groups
        .iter()
        .map(|group| group.iter().map(Row::new_tokens).collect())
        .collect();
    let reads = context.world().rank() == chooser(context);
    let mut next = 0;
    let finish = |pass: &Pass, _: &MicroBatch, mut wires: Wires| {
        let group = groups[next];
        next += 1;
        score(pass, &wires.take("logits")?, group, (text, reads))
    };
    let scores = match new_tokens {
        Some(new_tokens) => pipeline.extend(&batch, &new_tokens, finish)?,
        None => pipeline.evaluate(&batch, finish)?,
    };
    let scores: Vec<Vec<SequenceScore>> = scores.into_iter().collect::<Result<_>>()?;
    let sequences = rows.iter().map(|row| row.sequence);
    Ok(sequences.zip(scores.concat()).collect())
}

fn batch(pipeline: &Pipeline, groups: &[&[Row<'_>]]) -> Result<Batch> {
    let device = pipeline.context().device();
    let (mut micro_batches, mut first) = (Vec::new(), 0);
    for group in groups {
        let inputs = group.iter().flat_map(|row| row.tokens);
        let ids: Vec<u32> = inputs.copied().collect();
        let shape = [group.len(), ids.len() / group.len()];
        let inputs = Tensor::from_slice(device, &shape, &ids)?;
        let end = first + group.len();
        micro_batches.push(MicroBatch::new(first..end).with("inputs", inputs)?);
        first = end;
    }
    Ok(Batch {
        step: 0,
        num_rows: first,
        micro_batches,
    })
}

// The scores of a micro-batch, on the rank that reads them. Only the logits before predicted tokens are gathered.
fn score(
    pass: &Pass,
    logits: &DTensor,
    group: &[Row<'_>],
    (text, reads): (Text, bool),
) -> parallel::Result<Result<Vec<SequenceScore>>> {
    let all = logits.tensor()?;
    let flat = all.reshape(&[all.num_rows(), all.columns()])?;
    let tokens = flat.num_rows() / group.len().max(1);
    let mut targets = Vec::new();
    for (index, row) in group.iter().enumerate() {
        let first = (index + 1) * tokens - row.predicted.len();
        targets.extend((first..).zip(row.predicted.iter().copied()));
    }
    let mut found = Vec::with_capacity(targets.len());
    for piece in targets.chunks((MOST_LOGITS / text.vocabulary.max(1)).max(1)) {
        let rows = Var::constant(gather(&flat, piece)?);
        let rows = DTensor::new(pass, rows, logits.features(), logits.cut())?;
        for (logits, (_, token)) in whole_logits(&rows, text.vocabulary, reads)?
            .iter()
            .zip(piece)
        {
            match check_logits(logits) {
                Ok(()) => found.push(token_score(logits, *token)),
                Err(error) => return Ok(Err(error)),
            }
        }
    }
    let mut found = found.into_iter();
    let score = |row: &Row<'_>| {
        let own: Vec<(f64, bool)> = found.by_ref().take(row.predicted.len()).collect();
        SequenceScore {
            log_likelihoods: own.iter().map(|(score, _)| *score).collect(),
            is_greedy: own.iter().all(|(_, is_first)| *is_first),
        }
    };
    let read = if reads { group } else { &[] };
    Ok(Ok(read.iter().map(score).collect()))
}

// These rows, of which neighbours are copied together.
fn gather(flat: &Tensor, targets: &[(usize, u32)]) -> parallel::Result<Tensor> {
    let rows = Tensor::empty(
        flat.device(),
        flat.dtype(),
        &[targets.len(), flat.columns()],
    )?;
    let mut next = 0;
    for run in targets.chunk_by(|(a, _), (b, _)| a + 1 == *b) {
        let own = flat.rows(run[0].0, run.len())?;
        ops::copy(&own, &rows.rows(next, run.len())?)?;
        next += run.len();
    }
    Ok(rows)
}

// The log-probability of a token, and whether it is the first of the most likely ones.
fn token_score(logits: &[f64], token: u32) -> (f64, bool) {
    let (own, before) = (logits[token as usize], &logits[..token as usize]);
    let is_first =
        logits.iter().all(|logit| *logit <= own) && before.iter().all(|logit| *logit < own);
    (log_probabilities(logits, token, 0).0, is_first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_greedy_if_it_is_the_first_of_the_most_likely_ones() {
        let logits = [0.0, 3.0, 1.0, 3.0];
        let greedy = (0..4).map(|token| token_score(&logits, token).1);
        assert_eq!(greedy.collect::<Vec<_>>(), [false, true, false, false]);
        let sum: f64 = (0..4)
            .map(|token| token_score(&logits, token).0.exp())
            .sum();
        assert!((sum - 1.0).abs() < 1e-12);
        let (uniform, _) = token_score(&[0.0; 8], 5);
        assert!((uniform + 8_f64.ln()).abs() < 1e-15);
    }
}
