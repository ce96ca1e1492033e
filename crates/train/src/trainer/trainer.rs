//! One rank's model, parameters and optimiser.

use super::{
    Shares, diverged,
    recorded::{self, Recorded},
    scale::LossScale,
};
use crate::{
    Config, Result,
    config::{Optimiser, Precision},
    data::Dataset,
};
use grid::Axis;
use nn::{Gpt, Model, gpt::Wanted};
use parallel::{
    Context, Purpose,
    counters::Subject,
    data::SetOptions,
    pipeline::{self, Output, Plan},
};
use tensor::{DType, ReduceOp, Tensor, ops};

/// Trains a model step by step.
#[derive(Debug)]
pub struct Trainer {
    pub(super) context: Context,
    pub(super) config: Config,
    pub(super) model: Model<Gpt>,
    plan: Plan,
    pub(super) loss_scale: LossScale,
    /// Updates that were not skipped: the step number that AdamW corrects its moments by.
    pub(super) num_updates: u64,
    // Whether all ranks go the same ways to products by now.
    pub(super) has_agreed: bool,
    // Forward and backward, recorded in the second step where that is asked for.
    pub(super) recorded: Option<Recorded>,
}

/// What a step gave; the same on every rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepResult {
    /// Mean loss of the batch's tokens.
    pub loss: f64,
    /// Norm of all gradients, before clipping.
    pub gradient_norm: f64,
    /// Learning rate.
    pub rate: f64,
    /// Scale of the loss.
    pub loss_scale: f64,
}

impl Trainer {
    /// Builds this rank's part of the model, with its initial values.
    ///
    /// # Errors
    /// [`Error::Parallel`](crate::Error::Parallel) when sizes do not fit or memory does not suffice.
    pub fn new(context: &Context, config: &Config) -> Result<Trainer> {
        let plan = config.plan()?;
        let training = &config.training;
        recorded::check(context, training)?;
        let options = SetOptions {
            dtype: training.precision.dtype(),
            trains: true,
            num_states: training.num_states(),
            sharded: config.parallel.sharded_optimiser && context.degree(Axis::Data) > 1,
        };
        let model = Gpt::build(context, &config.model, plan.num_chunks(), options)?;
        let loss_scale = match training.precision {
            Precision::F16 => LossScale::dynamic(training.loss_scale),
            _ => LossScale::none(),
        };
        Ok(Trainer {
            context: context.clone(),
            config: config.clone(),
            model,
            plan,
            loss_scale,
            num_updates: 0,
            has_agreed: false,
            recorded: None,
        })
    }

    /// The model on this rank.
    pub fn model(&self) -> &Model<Gpt> {
        &self.model
    }

    /// How the batch is cut.
    pub fn shares(&self) -> Shares {
        Shares {
            batch: self.config.training.batch,
            micro_batches: self.config.training.micro_batches,
        }
    }

    /// Runs forward and backward of a batch: afterwards the parameters hold its gradients, summed over all replicas.
    ///
    /// Gives the mean loss as a tensor of one element, and the losses of this stage's micro-batches.
    ///
    /// # Errors
    /// Those of layers and collectives.
    pub fn gradients(&self, batch: &nn::Batch) -> Result<(Tensor, Vec<(usize, Tensor)>)> {
        let dtype = self.dtype().accumulator();
        self.gradients_of(
            batch,
            &Tensor::full(self.context.device(), dtype, &[1], self.loss_scale.value)?,
        )
    }

    /// As [`gradients`](Trainer::gradients), times the element of `d_loss`.
    pub(super) fn gradients_of(
        &self,
        batch: &nn::Batch,
        d_loss: &Tensor,
    ) -> Result<(Tensor, Vec<(usize, Tensor)>)> {
        let (context, parameters) = (&self.context, &self.model.parameters);
        let dtype = self.dtype();
        context.begin("training");
        parameters.begin_step()?;
        let step = self.model.module.step(batch, Wanted::Training, dtype);
        let losses = pipeline::run(context, &self.plan, &step, d_loss)?;
        parameters.end_backward()?;
        Ok((self.mean(losses.iter().map(|(_, loss)| loss))?, losses))
    }

    /// One training step on the batch of that number.
    ///
    /// # Errors
    /// [`Error::Diverged`](crate::Error::Diverged) when loss or gradients are not finite (in f16 an overflow of the
    /// gradients only skips the update); those of data, layers and collectives.
    pub fn step(&mut self, data: &Dataset, step: u64) -> Result<StepResult> {
        let batch = self.shares().training(&self.context, data, step)?;
        self.step_on(&batch)
    }

    /// One training step on this batch.
    ///
    /// # Errors
    /// As [`step`](Trainer::step).
    pub fn step_on(&mut self, batch: &nn::Batch) -> Result<StepResult> {
        let (mean, losses) = self.recorded_or_not(batch)?;
        let training = &self.config.training;
        let sum = self.model.parameters.gradient_sum_squares()?;
        let max_norm = (training.clip_norm > 0.0).then_some(training.clip_norm);
        let factor = ops::optimiser::clip_scale(&sum, max_norm, 1.0 / self.loss_scale.value)?;
        let rate = training.rate(batch.step);
        self.update(&factor, rate)?;
        let result = self.read(&mean, &factor, rate)?;
        self.judge(batch.step + 1, &result, &losses)?;
        let finite = result.gradient_norm.is_finite();
        self.num_updates += u64::from(finite);
        self.loss_scale.update(finite);
        self.agree_once()?;
        Ok(result)
    }

    // The first step may have timed products; later ones go the ways that all ranks have agreed on.
    fn agree_once(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.has_agreed, true) {
            self.context
                .device()
                .agree_on_products(&*self.context.world().everyone())?;
        }
        Ok(())
    }

    fn update(&self, factor: &Tensor, rate: f64) -> Result<()> {
        let (training, parameters) = (&self.config.training, &self.model.parameters);
        let updates = parameters.updates(training.weight_decay)?;
        match training.optimiser {
            Optimiser::AdamW => {
                let settings = ops::optimiser::AdamW {
                    rate,
                    beta1: training.beta1,
                    beta2: training.beta2,
                    epsilon: training.epsilon,
                    step: self.num_updates + 1,
                };
                ops::optimiser::adamw(self.context.device(), &updates, factor, settings)?;
            }
            Optimiser::Sgd => {
                ops::optimiser::sgd(
                    self.context.device(),
                    &updates,
                    factor,
                    rate,
                    training.momentum,
                )?;
            }
        }
        Ok(parameters.end_update()?)
    }

    fn read(&self, mean: &Tensor, factor: &Tensor, rate: f64) -> Result<StepResult> {
        let (loss, gradient_norm) = (self.number(mean)?, self.number(&factor.rows(1, 1)?)?);
        Ok(StepResult {
            loss,
            gradient_norm,
            rate,
            loss_scale: self.loss_scale.value,
        })
    }

    // On a device without values there is nothing to report, and nothing depends on it.
    fn number(&self, tensor: &Tensor) -> Result<f64> {
        match self.context.device().capabilities().holds_values {
            true => Ok(tensor.item()?),
            false => Ok(0.0),
        }
    }

    fn judge(&self, step: u64, result: &StepResult, losses: &[(usize, Tensor)]) -> Result<()> {
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
            return Err(diverged::report(
                self,
                step,
                "the gradients' norm",
                result.gradient_norm,
                losses,
            )?);
        }
        Ok(())
    }

    /// Mean loss over the validation batches; the same on every rank.
    ///
    /// # Errors
    /// Those of data, layers and collectives.
    pub fn validate(&self, data: &Dataset) -> Result<f64> {
        let mut sum = 0.0;
        for index in 0..data.validation_batches() {
            let batch = self.shares().validation(&self.context, data, index)?;
            self.context.begin("validation");
            let step = self
                .model
                .module
                .step(&batch, Wanted::Validation, self.dtype());
            let num_micro_batches = batch.micro_batches.len();
            let outputs = pipeline::forward(
                &self.context,
                self.plan.num_chunks(),
                num_micro_batches,
                &step,
            )?;
            let losses: Vec<Tensor> = outputs.into_iter().filter_map(loss).collect();
            sum += self.number(&self.mean(losses.iter())?)?;
        }
        Ok(sum / data.validation_batches().max(1) as f64)
    }

    // The sum of micro-batches' losses over all ranks that hold different tokens; stages without the head add nothing.
    fn mean<'a>(&self, losses: impl Iterator<Item = &'a Tensor>) -> Result<Tensor> {
        let context = &self.context;
        let sum = Tensor::zeros(context.device(), self.dtype().accumulator(), &[1])?;
        for loss in losses {
            ops::axpby(1.0, loss, 1.0, &sum)?;
        }
        let compute = context.device().compute();
        for axis in [Axis::Z, Axis::Data, Axis::Pipeline] {
            if let Some(group) = context.group(axis, Purpose::Main)? {
                group.all_reduce(context, Subject::Loss, &compute, &sum, ReduceOp::Sum)?;
            }
        }
        Ok(sum)
    }

    pub(super) fn dtype(&self) -> DType {
        self.config.training.precision.dtype()
    }
}

fn loss(output: Output) -> Option<Tensor> {
    match output {
        Output::Loss(loss) => Some(loss.var.into_tensor()),
        Output::Activation(_) | Output::Logits(_) => None,
    }
}
