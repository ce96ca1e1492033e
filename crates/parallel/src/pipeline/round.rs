//! The micro-batches between two updates: their passes, and the version of the model that runs them.

use super::{part::Program, pipeline::Pipeline, plan::SchedulePlan};
use crate::{
    Pass, RowCut,
    data::{Gradients, TrainingStep},
    model::{Batch, MicroBatch},
};
use std::collections::VecDeque;
use tensor::{Error, Result};

/// The rounds of a batch. A *round* is the micro-batches of one update: all of a step, or a single one.
///
/// A round takes the version of the weights whose turn it is, at the latest with its first forward. Until the round's update, nothing
/// changes that version.
pub(super) struct Rounds {
    per_round: usize,
    // Those begun, in order; the first `num_finished` have their update behind them.
    passes: Vec<(Program, Vec<Pass>)>,
    open: VecDeque<(usize, TrainingStep)>,
    num_finished: usize,
    num_backwards: usize,
}

impl Rounds {
    /// The rounds of a batch that trains.
    pub(super) fn training(schedule: &SchedulePlan) -> Rounds {
        Rounds {
            per_round: schedule.num_micro_batches() / schedule.num_updates(),
            passes: Vec::new(),
            open: VecDeque::new(),
            num_finished: 0,
            num_backwards: 0,
        }
    }

    /// A batch that runs forward only, with a pass for each micro-batch.
    pub(super) fn evaluation(program: &Program, passes: Vec<Pass>) -> Rounds {
        Rounds {
            per_round: passes.len(),
            passes: vec![(program.clone(), passes)],
            open: VecDeque::new(),
            num_finished: 0,
            num_backwards: 0,
        }
    }

    /// Begins the next round: it takes the version of the weights whose turn it is, and its first addend to each gradient will replace
    /// what is there.
    ///
    /// # Errors
    /// As [`Versions::take`](super::versions::Versions::take) and [`ParameterSet::begin_step`](crate::data::ParameterSet::begin_step).
    pub(super) fn begin(&mut self, pipeline: &Pipeline, batch: &Batch) -> Result<()> {
        let round = self.passes.len();
        let (index, version) = pipeline.versions.take()?;
        let number = batch.step * self.count(batch) as u64 + round as u64;
        let cut = RowCut::new(self.rows(batch), self.per_round);
        let step = version.parameters.begin_step(number, cut)?;
        let numbers = round * self.per_round..(round + 1) * self.per_round;
        let passes = numbers.map(|number| step.pass(self.local(batch, number).rows()));
        let passes = passes.collect::<Result<_>>()?;
        self.passes.push((version.program.clone(), passes));
        self.open.push_back((index, step));
        Ok(())
    }

    /// What runs a micro-batch: the version of the model, the pass, and the rows as the pass counts them. Begins its round if this is
    /// its first forward.
    ///
    /// # Errors
    /// As [`begin`](Rounds::begin); [`Error::Invalid`] for a round before its turn.
    pub(super) fn run_of(
        &mut self,
        pipeline: &Pipeline,
        batch: &Batch,
        micro_batch: usize,
    ) -> Result<(Program, Pass, MicroBatch)> {
        let (round, within) = (micro_batch / self.per_round, micro_batch % self.per_round);
        if round == self.passes.len() {
            self.begin(pipeline, batch)?;
        }
        let Some((program, passes)) = self.passes.get(round) else {
            let found = format!("micro-batch {micro_batch} before those of an earlier update");
            return Err(Error::invalid("forward", found, "a schedule that checks"));
        };
        let rows = self.local(batch, micro_batch);
        Ok((program.clone(), passes[within].clone(), rows))
    }

    // Rounds of the batch.
    fn count(&self, batch: &Batch) -> usize {
        batch.micro_batches.len() / self.per_round
    }

    // Rows of a round on all ranks.
    fn rows(&self, batch: &Batch) -> usize {
        batch.num_rows / self.count(batch)
    }

    // The rows of a micro-batch, counted from the first one of its round: to sums and masks, a round is a batch of its own.
    fn local(&self, batch: &Batch, micro_batch: usize) -> MicroBatch {
        let first = micro_batch / self.per_round * self.rows(batch);
        batch.micro_batches[micro_batch].counted_from(first)
    }

    /// Counts a backward that has run.
    pub(super) fn note_backward(&mut self) {
        self.num_backwards += 1;
    }

    /// Whether all backwards of the next update have run, and another round comes after it in the batch.
    pub(super) fn is_due(&self, num_micro_batches: usize) -> bool {
        let end = (self.num_finished + 1) * self.per_round;
        end < num_micro_batches && self.num_backwards >= end
    }

    /// Ends the next round: its gradients, and its version is now the one with the latest weights. Collective.
    ///
    /// # Errors
    /// [`Error::Invalid`] if none is open; as [`TrainingStep::finish`].
    pub(super) fn finish(&mut self, pipeline: &Pipeline) -> Result<Gradients> {
        let Some((index, step)) = self.open.pop_front() else {
            return Err(Error::invalid(
                "update",
                "no micro-batch since the last one",
                "a schedule that checks",
            ));
        };
        self.num_finished += 1;
        self.passes[self.num_finished - 1].1.clear();
        let gradients = step.finish()?;
        pipeline.versions.give_back(index)?;
        Ok(gradients)
    }
}
