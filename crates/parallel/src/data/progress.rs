//! When the gradients of a bucket are final: what a step has added to them, and the reduction that follows.

use super::{ParameterSet, bucket::Bucket};
use crate::{Parameter, Pass, Reproducible, layers::scatter};
use grid::Axis;
use tensor::{Error, Result, Tensor};

/// The progress of the gradients in the current step; lists are indexed by parameter.
#[derive(Default)]
pub(super) struct Progress {
    addends: Vec<u64>,
    // Number of addends that each parameter receives per step, learnt from the first step.
    expected: Option<Vec<u64>>,
    reduces_early: bool,
    reduced: Vec<bool>,
    num_reduced: usize,
}

impl Progress {
    /// Before the first step, for this many parameters and buckets.
    pub(super) fn new(parameters: usize, buckets: usize) -> Progress {
        Progress {
            addends: vec![0; parameters],
            reduced: vec![false; buckets],
            ..Progress::default()
        }
    }
}

impl ParameterSet {
    /// Forgets all gradients: the first addend to each will replace it. Each bucket will be reduced as soon as its gradients
    /// are final.
    pub(super) fn forget_gradients(&self) {
        let mut progress = self.0.progress.borrow_mut();
        self.forget_addends();
        self.forget_shards();
        if let Some(pages) = &self.0.room.gradients {
            pages.forget();
        }
        progress.addends.fill(0);
        progress.reduced.fill(false);
        progress.num_reduced = 0;
        progress.reduces_early =
            self.0.context.settings().overlap.data && progress.expected.is_some();
    }

    /// The gradient to which an addend to that of a parameter of this set is added in a micro-batch, and the factor of what it
    /// holds: 0 for the first addend, because the tensor still holds another gradient.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; as [`Parameter::gradient`].
    pub(crate) fn gradient_of(
        &self,
        parameter: &Parameter,
        micro_batch: usize,
    ) -> Result<(Tensor, f64)> {
        if self.0.options.sharding.shards_gradients()
            && let Some(open) = self.open_gradient(parameter, micro_batch)?
        {
            return Ok(open);
        }
        let factor = if self.has_no_addend(parameter) {
            0.0
        } else {
            1.0
        };
        Ok((parameter.gradient()?, factor))
    }

    /// Whether the parameter, one of this set, has received nothing in this step.
    fn has_no_addend(&self, parameter: &Parameter) -> bool {
        let progress = self.0.progress.borrow();
        let home = parameter.settled().filter(|_| self.holds(parameter));
        home.is_some_and(|home| progress.addends[home.index] == 0)
    }

    // What the step did not use has a gradient of 0.
    fn clear_unused(&self, bucket: &Bucket) -> Result<()> {
        let unused = |parameter: &&Parameter| self.has_no_addend(parameter);
        let homes = bucket.parameters.iter().filter(unused);
        homes
            .filter_map(|parameter| parameter.settled()?.gradient.as_ref())
            .try_for_each(|gradient| gradient.tensor()?.fill(0.0))
    }

    /// Ends the backward passes of a step: reduces the buckets that are not yet reduced, in their order.
    pub(super) fn reduce_all(&self, pass: &Pass) -> Result<()> {
        scatter::settle(pass, 0)?;
        if self.0.options.sharding.shards_gradients() {
            let stream = self.reduction_stream()?;
            return self
                .0
                .buckets
                .iter()
                .enumerate()
                .try_for_each(|(index, bucket)| {
                    self.end_shards(index)?;
                    bucket.reduce_tied(&self.0.context, &stream)
                });
        }
        self.0.progress.borrow_mut().reduces_early = false;
        (0..self.0.buckets.len()).try_for_each(|index| self.reduce(index))?;
        let mut progress = self.0.progress.borrow_mut();
        let addends = progress.addends.clone();
        if let Some(expected) = &progress.expected
            && *expected != addends
            && self.0.context.settings().overlap.data
        {
            let differs = expected
                .iter()
                .zip(&addends)
                .position(|(one, other)| one != other);
            let index = differs.unwrap_or(0);
            let name = self.0.parameters[index].name();
            let found = format!(
                "{name} used {} times, in the first step {}",
                addends[index], expected[index]
            );
            let needed = "the same uses in every step, or the overlap of Data switched off";
            return Err(Error::invalid("reduction of gradients", found, needed));
        }
        progress.expected = Some(addends);
        Ok(())
    }

    /// Records an addend that has been queued into the gradient of a parameter of this set, and reduces the
    /// parameter's bucket once the last addend of its last parameter is there: the last of the step, or where replicas shard
    /// gradients, of the micro-batch.
    pub(crate) fn note(&self, parameter: &Parameter, micro_batch: usize) -> Result<()> {
        if self.0.options.sharding.shards_gradients() {
            return self.note_open(parameter, micro_batch);
        }
        let Some(home) = parameter.settled() else {
            return Ok(());
        };
        let mut progress = self.0.progress.borrow_mut();
        progress.addends[home.index] += 1;
        let bucket = &self.0.buckets[home.bucket];
        let Some(expected) = progress
            .expected
            .as_ref()
            .filter(|_| progress.reduces_early)
        else {
            return Ok(());
        };
        let is_final = |parameter: &Parameter| {
            let index = parameter.settled().map_or(0, |home| home.index);
            progress.addends[index] >= expected[index]
        };
        // A table that stages share waits for the other stage's backward, and so would everything queued after
        // it.
        let all_final = bucket.tied.is_none() && bucket.parameters.iter().all(is_final);
        drop(progress);
        match all_final {
            true => self.reduce(home.bucket),
            false => Ok(()),
        }
    }

    fn reduce(&self, index: usize) -> Result<()> {
        let bucket = &self.0.buckets[index];
        {
            let progress = &mut *self.0.progress.borrow_mut();
            if std::mem::replace(&mut progress.reduced[index], true) {
                return Ok(());
            }
            bucket.turn.set(progress.num_reduced);
            progress.num_reduced += 1;
        }
        self.reduce_bucket(bucket)?;
        // An update on the host waits for these gradients, and not for the rest of backward.
        match (&self.0.room.host, bucket.own_gradients()?) {
            (Some(_), Some(gradients)) => gradients.record_uses(),
            _ => Ok(()),
        }
    }

    fn reduce_bucket(&self, bucket: &Bucket) -> Result<()> {
        let context = &self.0.context;
        self.clear_unused(bucket)?;
        let is_cut = |axis: &Axis| context.degree(*axis) > 1;
        let by_nodes = context.settings().reproducible == Reproducible::Grid;
        let travels = bucket.sum_axes.iter().any(is_cut) || bucket.tied.is_some();
        if !travels && !by_nodes {
            return Ok(());
        }
        let stream = match travels {
            true => self.reduction_stream()?,
            false => context.device().compute(),
        };
        match by_nodes {
            true => self.reduce_nodes(bucket, self.0.cut.get(), &stream)?,
            false => bucket.reduce(context, &stream)?,
        }
        bucket.reduce_tied(context, &stream)
    }
}
