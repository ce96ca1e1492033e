//! What a step runs: micro-batches of rows of equally many tokens.

use super::{choice::chooser, sequence::Sequence};
use crate::{Result, architecture::Text};
use grid::Axis;
use parallel::{
    Batch, DTensor, MicroBatch, Pass, Pipeline, Wires, cache::NewTokens, layers::whole_logits,
};
use tensor::{Tensor, Var, ops};

/// The tokens that a step runs of a sequence.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// The sequence, by its place among the running ones.
    pub(super) sequence: usize,
    pub(super) tokens: usize,
    /// Whether they are the last ones before a token that is to be chosen.
    pub(super) completes: bool,
    /// Whether they are of the prompt.
    pub(super) is_prompt: bool,
}

/// The rows of a step, by micro-batch.
pub(super) struct MicroBatches {
    rows: Vec<Vec<Row>>,
    of_new_tokens: bool,
}

impl MicroBatches {
    /// The new tokens of each sequence: those that have one are rows of as many micro-batches as there are stages, so that
    /// stages work at a time; others share a micro-batch if they run equally many, of at most `prefill` tokens in all.
    pub(super) fn of_new_tokens(
        pipeline: &Pipeline,
        running: &[Sequence],
        prefill: usize,
    ) -> MicroBatches {
        let (mut single, mut left) = (Vec::new(), prefill);
        let mut rows: Vec<Vec<Row>> = Vec::new();
        for (index, sequence) in running.iter().enumerate() {
            let new = sequence.new_tokens().len();
            let tokens = if new == 1 { 1 } else { new.min(left) };
            let row = Row {
                sequence: index,
                tokens,
                completes: tokens == new,
                is_prompt: sequence.is_prompt(),
            };
            match new {
                1 => single.push(row),
                _ if tokens > 0 => {
                    left -= tokens;
                    let like = |rows: &&mut Vec<Row>| {
                        (rows[0].tokens, rows[0].completes) == (row.tokens, row.completes)
                    };
                    match rows.iter_mut().find(like) {
                        Some(rows) => rows.push(row),
                        None => rows.push(vec![row]),
                    }
                }
                _ => {}
            }
        }
        let stages = pipeline.context().degree(Axis::Pipeline);
        let each = single.len().div_ceil(stages).max(1);
        rows.extend(single.chunks(each).map(<[Row]>::to_vec));
        MicroBatches {
            rows,
            of_new_tokens: true,
        }
    }

    /// The complete window of each sequence, in a micro-batch of its own.
    pub(super) fn of_windows(running: &[Sequence], context: usize) -> MicroBatches {
        let row = |(index, sequence): (usize, &Sequence)| {
            vec![Row {
                sequence: index,
                tokens: sequence.window(context).len(),
                completes: true,
                is_prompt: sequence.is_prompt(),
            }]
        };
        MicroBatches {
            rows: running.iter().enumerate().map(row).collect(),
            of_new_tokens: false,
        }
    }

    /// The rows in their order.
    pub(super) fn into_rows(self) -> Vec<Row> {
        self.rows.into_iter().flatten().collect()
    }

    /// Runs them; on the rank that chooses, returns the logits after each row that completes, in their order.
    ///
    /// # Errors
    /// Those of layers, messages and collectives.
    pub(super) fn logits(
        &self,
        pipeline: &Pipeline,
        running: &[Sequence],
        text: Text,
    ) -> Result<Vec<Vec<f64>>> {
        if self.rows.is_empty() {
            return Ok(Vec::new());
        }
        let context = pipeline.context();
        let chooses = context.world().rank() == chooser(context);
        let (batch, new_tokens) = self.batch(pipeline, running, text)?;
        let mut next = 0;
        let finish = |pass: &Pass, _: &MicroBatch, mut wires: Wires| {
            let rows = &self.rows[next];
            next += 1;
            let logits = wires.take("logits")?;
            // Of a micro-batch all rows complete, or none does.
            if !rows.iter().any(|row| row.completes) {
                return Ok(Vec::new());
            }
            whole_logits(&last(pass, &logits, rows.len())?, text.vocabulary, chooses)
        };
        let outputs = match self.of_new_tokens {
            true => pipeline.extend(&batch, &new_tokens, finish)?,
            false => pipeline.evaluate(&batch, finish)?,
        };
        Ok(outputs.into_iter().flatten().collect())
    }

    fn batch(
        &self,
        pipeline: &Pipeline,
        running: &[Sequence],
        text: Text,
    ) -> Result<(Batch, Vec<Vec<NewTokens>>)> {
        let device = pipeline.context().device();
        let (mut micro_batches, mut all, mut first) = (Vec::new(), Vec::new(), 0);
        for rows in &self.rows {
            let new = |row: &Row| {
                let sequence = &running[row.sequence];
                let ids = match self.of_new_tokens {
                    true => sequence.new_tokens(),
                    false => sequence.window(text.context),
                };
                NewTokens {
                    cache: sequence.cache.clone(),
                    ids: ids[..row.tokens].to_vec(),
                    outputs: 1,
                }
            };
            let new: Vec<NewTokens> = rows.iter().map(new).collect();
            let ids: Vec<u32> = new.iter().flat_map(|row| row.ids.clone()).collect();
            let shape = [rows.len(), ids.len() / rows.len()];
            let inputs = Tensor::from_slice(device, &shape, &ids)?;
            let end = first + rows.len();
            micro_batches.push(MicroBatch::new(first..end).with("inputs", inputs)?);
            all.push(new);
            first = end;
        }
        let batch = Batch {
            step: 0,
            num_rows: first,
            micro_batches,
        };
        Ok((batch, all))
    }
}

// The logits after the last token of each row, as a matrix.
fn last(pass: &Pass, logits: &DTensor, rows: usize) -> parallel::Result<DTensor> {
    let all = logits.tensor()?;
    let (columns, tokens) = (all.columns(), all.num_rows() / rows.max(1));
    let flat = all.reshape(&[all.num_rows(), columns])?;
    let last = match tokens {
        1 => flat,
        _ => {
            let last = Tensor::empty(all.device(), all.dtype(), &[rows, columns])?;
            for row in 0..rows {
                let own = flat.rows((row + 1) * tokens - 1, 1)?;
                ops::copy(&own, &last.rows(row, 1)?)?;
            }
            last
        }
    };
    DTensor::new(pass, Var::constant(last), logits.features(), logits.cut())
}
