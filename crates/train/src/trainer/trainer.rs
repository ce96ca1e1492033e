//! One rank's model, parameters and optimiser.

use super::{
    Options,
    checks::{check_delay, check_groups},
    diverged,
    frozen::Kept,
    recorded::{self, Recorded},
    scale::LossScale,
    watch::Watch,
};
use crate::{
    Error, Result,
    batches::{Batches, RowCut, Rows},
    config::{Precision, as_config},
    digest::StepDigest,
    optimiser::{MatrixRule, Optimiser},
    preference::PreferenceMetrics,
};
use grid::Axis;
use nn::Builder;
use parallel::{
    Batch, Context, Model, Parameter, Pipeline,
    data::{Gradients, ParameterSet, SetOptions},
    layers::loss::LossValue,
    pipeline::{self, Built, SchedulePlan},
};
use std::{ops::Range, rc::Rc};
use tensor::{DType, Tensor, ops};

/// Trains a model step by step.
#[derive(Debug)]
pub struct Trainer {
    pub(super) context: Context,
    pub(super) pipeline: Pipeline,
    pub(super) optimiser: Box<dyn Optimiser>,
    pub(super) options: Options,
    pub(super) loss_scale: LossScale,
    /// The number of the next step.
    pub(super) next_step: u64,
    // Where the frozen weights are that were resumed from, until somebody writes others.
    pub(super) frozen_file: Option<Kept>,
    /// Number of updates that were not skipped: the step number with which AdamW corrects its moments.
    pub(super) num_updates: u64,
    // Whether all ranks have agreed on the variants of matmuls.
    pub(super) has_agreed: bool,
    // That of the last step, if it was due.
    pub(super) digest: Option<StepDigest>,
    // Forward and backward, recorded in the second step if requested.
    pub(super) recorded: Option<Recorded>,
}

/// The result of a step; the same on every rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepResult {
    /// Number of the step, from 0.
    pub step: u64,
    /// Mean loss of the batch.
    pub loss: f64,
    /// Norm of all gradients, before clipping. Of several updates, the root of the mean of its square.
    pub gradient_norm: f64,
    /// Learning rate.
    pub rate: f64,
    /// Scale of the loss.
    pub loss_scale: f64,
    /// Means over the pairs of the batch, if its rows are of those.
    pub preferences: Option<PreferenceMetrics>,
}

/// What a step has left on the device.
pub(super) struct StepOutcome {
    /// The mean loss, one element.
    pub(super) loss: Tensor,
    /// The norm of all gradients, one f64.
    pub(super) norm: Tensor,
    /// Number and loss of each micro-batch, on the last stage.
    pub(super) losses: Vec<(usize, LossValue)>,
}

/// The results of forward and backward of a batch.
#[derive(Debug)]
pub struct Computed {
    /// The gradients, summed over all replicas.
    pub gradients: Gradients,
    /// The mean loss, one element; the same on every rank.
    pub loss: Tensor,
    /// Number and loss of each micro-batch, on the last stage: one element, or one for each of its rows on this rank.
    pub losses: Vec<(usize, LossValue)>,
}

impl Trainer {
    /// Builds this rank's part of a model, with its initial values. Collective.
    ///
    /// `build` is ordinary code that requests layers from the builder, the same for every grid. It runs once for each version of
    /// the weights: several times if the schedule delays gradients.
    ///
    /// # Errors
    /// [`Error::Setting`] for options that do not fit the grid or the device, and for groups that the model does not have;
    /// [`Error::Parallel`] from `build`, for a schedule that cannot be built, for more stages than segments, and if
    /// memory does not suffice.
    pub fn new<M: Model + 'static>(
        context: &Context,
        build: impl Fn(&Builder) -> parallel::Result<M>,
        optimiser: impl Optimiser + 'static,
        options: Options,
    ) -> Result<Trainer> {
        Trainer::boxed(context, build, Box::new(optimiser), options)
    }

    /// As [`new`](Trainer::new), with an optimiser chosen at run time.
    ///
    /// # Errors
    /// As [`new`](Trainer::new).
    pub fn boxed<M: Model + 'static>(
        context: &Context,
        build: impl Fn(&Builder) -> parallel::Result<M>,
        optimiser: Box<dyn Optimiser>,
        options: Options,
    ) -> Result<Trainer> {
        recorded::check(context, &options)?;
        check_delay(&options)?;
        let cut = options.row_cut();
        cut.check(context).map_err(as_config)?;
        let stages = context.degree(Axis::Pipeline);
        let schedule = SchedulePlan::new(options.schedule, stages, options.micro_batches)?;
        let set = SetOptions {
            dtype: options.precision.dtype(),
            trains: true,
            num_states: optimiser.num_states(),
            matrix_states: optimiser.matrices().map(MatrixRule::num_states),
            codes: optimiser.codes().is_some(),
            factors: optimiser.factors().is_some(),
            sharding: options.sharding,
            places: options.places.clone(),
            versions: 1,
        };
        let put = pipeline::Options {
            set,
            memory: options.memory.clone(),
            depths: options.stages.clone(),
        };
        let build = || -> parallel::Result<Built> {
            let builder = Builder::new(context);
            let model = Rc::new(build(&builder)?);
            Ok((model, builder.parameters()))
        };
        let pipeline = Pipeline::new(context, build, schedule, put)?;
        check_groups(&options, pipeline.declared())?;
        let loss_scale = match options.precision {
            Precision::F16 => LossScale::dynamic(options.loss_scale),
            _ => LossScale::none(),
        };
        Ok(Trainer {
            context: context.clone(),
            pipeline,
            optimiser,
            options,
            loss_scale,
            next_step: 0,
            frozen_file: None,
            num_updates: 0,
            has_agreed: false,
            digest: None,
            recorded: None,
        })
    }

    /// This rank's context.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The model on its stages.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// The parameters that this rank holds.
    pub fn parameters(&self) -> &ParameterSet {
        self.pipeline.parameters()
    }

    /// How steps run.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The loss scale, if it adapts.
    pub fn adapted_loss_scale(&self) -> Option<f64> {
        self.loss_scale.adapts().then_some(self.loss_scale.value)
    }

    /// The number of the next step, from 0.
    pub fn next_step(&self) -> u64 {
        self.next_step
    }

    /// The digest of the step just done, if [`Options::digest_every`] asked for it; the same on every rank.
    pub fn digest(&self) -> Option<&StepDigest> {
        self.digest.as_ref()
    }

    /// Number of weights of the full model; a shared weight counts once.
    pub fn num_parameters(&self) -> usize {
        self.count(|_| true)
    }

    /// Those of them that are trained.
    pub fn num_trained(&self) -> usize {
        self.count(|parameter| !parameter.is_frozen())
    }

    fn count(&self, counts: impl Fn(&Parameter) -> bool) -> usize {
        let declared = self.pipeline.declared().iter();
        let counted = declared.filter(|parameter| counts(parameter));
        let elements = counted.map(|parameter| parameter.global_shape().iter().product::<usize>());
        elements.sum()
    }

    /// How the batch is cut.
    pub fn row_cut(&self) -> RowCut {
        self.options.row_cut()
    }

    /// The type of activations.
    pub fn dtype(&self) -> DType {
        self.options.precision.dtype()
    }

    /// This rank's rows of the next step.
    ///
    /// # Errors
    /// Those of `data`; [`Error::Parallel`] as [`Rows::upload`].
    pub fn batch(&self, data: &dyn Batches) -> Result<Batch> {
        let step = self.next_step;
        self.batch_of(step, |rows| data.training(step, rows))
    }

    /// This rank's rows of a batch, from a function that returns any rows of the global one; `step` keys dropout.
    ///
    /// # Errors
    /// Those of `rows`; [`Error::Parallel`] as [`Rows::upload`].
    pub fn batch_of(
        &self,
        step: u64,
        rows: impl Fn(Range<usize>) -> Result<Rows>,
    ) -> Result<Batch> {
        let (cut, device) = (self.row_cut(), self.context.device());
        let upload = |micro_batch| {
            let range = cut.range(&self.context, micro_batch);
            Ok(rows(range.clone())?.upload(device, self.dtype(), range)?)
        };
        Ok(Batch {
            step,
            num_rows: cut.batch,
            micro_batches: (0..cut.micro_batches).map(upload).collect::<Result<_>>()?,
        })
    }

    /// Runs forward and backward of a batch. Collective.
    ///
    /// # Errors
    /// [`Error::Setting`] if the schedule updates the weights within a step; [`Error::Parallel`] from layers and collectives.
    pub fn gradients(&self, batch: &Batch) -> Result<Computed> {
        self.gradients_before(batch, None)
    }

    // As `gradients`, before a step on `next`.
    pub(super) fn gradients_before(&self, batch: &Batch, next: Option<&Batch>) -> Result<Computed> {
        let dtype = self.dtype().accumulator();
        let device = self.context.device();
        let d_loss = Tensor::full(device, dtype, &[1], self.loss_scale.value)?;
        self.gradients_of((batch, next), &d_loss)
    }

    /// As [`gradients`](Trainer::gradients), multiplied by the element of `d_loss`.
    pub(super) fn gradients_of(
        &self,
        (batch, next): (&Batch, Option<&Batch>),
        d_loss: &Tensor,
    ) -> Result<Computed> {
        if self.options.schedule.updates_each_micro_batch() {
            let found = format!("{}, which updates within a step", self.options.schedule);
            return Err(Error::setting(
                "gradients of a batch",
                found,
                "another schedule",
            ));
        }
        let mut gradients = None;
        let losses = self.pipeline.train(batch, next, d_loss, |of_update| {
            gradients = Some(of_update);
            Ok::<(), Error>(())
        })?;
        Ok(Computed {
            gradients: gradients.expect("a step has an update"),
            loss: self.mean(&losses, 1)?,
            losses,
        })
    }

    /// One training step. Collective.
    ///
    /// # Errors
    /// [`Error::Diverged`] when loss or gradients are not finite (in f16 an overflow of the gradients only skips the
    /// update); [`Error::Parallel`] from layers and collectives; [`Error::Setting`] when steps are recorded and the model
    /// draws random masks, or the number of micro-batches changes; [`Error::Replicas`] if a digest is due, and ranks that
    /// should hold the same do not.
    pub fn step(&mut self, batch: &Batch) -> Result<StepResult> {
        self.step_before(batch, None)
    }

    /// As [`step`](Trainer::step), before a step on `next`. If the schedule delays gradients
    /// ([`ScheduleKind::delays_gradients`](pipeline::ScheduleKind::delays_gradients)), stages that would wait begin `next`, and its
    /// rows are then those that are given here. No number depends on whether it is known. Collective.
    ///
    /// # Errors
    /// As [`step`](Trainer::step); [`Error::Parallel`] if the next step is then on another batch.
    pub fn step_before(&mut self, batch: &Batch, next: Option<&Batch>) -> Result<StepResult> {
        Ok(self.step_beside(batch, next, |_| ())?.0)
    }

    /// As [`step_before`](Trainer::step_before), and what `work` returns, which runs while the device still does what the step has
    /// queued.
    pub(crate) fn step_beside<T>(
        &mut self,
        batch: &Batch,
        next: Option<&Batch>,
        work: impl FnOnce(&Trainer) -> T,
    ) -> Result<(StepResult, T)> {
        // A digest sees all that segments return in its step.
        let next = next.filter(|next| !Watch::is_due(self, next.step));
        let mut watch = Watch::begin(self, batch.step)?;
        let outcome = match self.options.schedule.updates_each_micro_batch() {
            true => self.update_by_stages(batch, next)?,
            false => self.update_at_end(batch, next, watch.as_mut())?,
        };
        let beside = work(self);
        let result = StepResult {
            step: batch.step,
            loss: self.number(&outcome.loss)?,
            gradient_norm: self.number(&outcome.norm)?,
            rate: self.optimiser.rate(batch.step),
            loss_scale: self.loss_scale.value,
            preferences: self.preferences(batch, &outcome.losses)?,
        };
        self.judge(&result, &outcome.losses)?;
        self.digest = match watch {
            Some(watch) => Some(watch.finish(self, batch.step)?),
            None => None,
        };
        let finite = result.gradient_norm.is_finite();
        self.next_step = batch.step + 1;
        self.num_updates += u64::from(finite) * self.num_updates_of_step() as u64;
        self.loss_scale.update(finite);
        self.agree_once()?;
        Ok((result, beside))
    }

    // One update of all stages together, with the gradients of all micro-batches.
    fn update_at_end(
        &mut self,
        batch: &Batch,
        next: Option<&Batch>,
        mut watch: Option<&mut Watch>,
    ) -> Result<StepOutcome> {
        let Computed {
            gradients,
            loss,
            losses,
        } = self.recorded_or_not(batch, next)?;
        if let Some(watch) = watch.as_deref_mut() {
            watch.gradients(self)?;
        }
        let at = (batch.step, self.num_updates + 1);
        let factor = match self.updates_before_norm() {
            true => {
                let sum = self.update_by(gradients, 1.0, at)?;
                ops::optimiser::clip_scale(&sum, None, 1.0)?
            }
            false => {
                let (sum, scale) = (gradients.sum_squares()?, 1.0 / self.loss_scale.value);
                let factor = ops::optimiser::clip_scale(&sum, self.max_norm(), scale)?;
                self.update(gradients, &factor, at)?;
                factor
            }
        };
        if let Some(watch) = watch {
            watch.state(self)?;
        }
        Ok(StepOutcome {
            loss,
            norm: factor.rows(1, 1)?,
            losses,
        })
    }

    // The first step may have timed matmuls; later steps use the variants on which all ranks agreed.
    fn agree_once(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.has_agreed, true) {
            let everyone = self.context.world().everyone();
            self.context.device().agree_on_matmuls(&*everyone)?;
        }
        Ok(())
    }

    fn judge(&self, result: &StepResult, losses: &[(usize, LossValue)]) -> Result<()> {
        let step = result.step + 1;
        if !result.loss.is_finite() {
            return Err(diverged::report(
                self,
                step,
                "the loss",
                result.loss,
                losses,
            )?);
        }
        if !result.gradient_norm.is_finite() && !self.loss_scale.adapts() {
            let (what, norm) = ("the gradients' norm", result.gradient_norm);
            return Err(diverged::report(self, step, what, norm, losses)?);
        }
        Ok(())
    }
}
