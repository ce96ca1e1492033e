//! A model on its stages.

use super::{channel::Channel, engine, part::Program, plan::SchedulePlan, stage::Stage};
use crate::{
    Context, Pass,
    data::{Gradients, ParameterSet, SetOptions, Tied},
    model::{Batch, Cut, MicroBatch, Model, Wires},
    parameter::Parameter,
};
use grid::Axis;
use std::{fmt, rc::Rc};
use tensor::{Error, Result, Tensor};

/// How a model is placed on its stages.
#[derive(Clone, Debug)]
pub struct Options {
    /// The purpose of the parameters' buffers.
    pub set: SetOptions,
    /// Whether activations are dropped in forward and recomputed in backward.
    pub recompute: bool,
}

/// The part of a model that this rank's stage runs, with its parameters and its channels to the other stages.
pub struct Pipeline {
    parameters: ParameterSet,
    all_parameters: Vec<Parameter>,
    context: Context,
    schedule: SchedulePlan,
    pub(super) program: Program,
    pub(super) channels: Vec<Option<Channel>>,
}

impl Pipeline {
    /// Cuts a model whose parameters are `declared`, and allocates memory for those of this rank's stage.
    /// Collective.
    ///
    /// # Errors
    /// [`Error::Invalid`] as for [`Cut::new`] and [`ParameterSet::allocate`], and for a parameter of a segment that the
    /// model does not have; [`Error::OutOfMemory`]; those of joining other stages.
    pub fn new(
        context: &Context,
        model: Rc<dyn Model>,
        declared: Vec<Parameter>,
        schedule: SchedulePlan,
        options: Options,
    ) -> Result<Pipeline> {
        let stages = schedule.stages(context.degree(Axis::Pipeline));
        let cut = Cut::new(&*model, &declared, stages)?;
        check_segments(&declared, cut.num_segments())?;
        let own = context.index(Axis::Pipeline);
        let line = context.members(&[Axis::Pipeline]);
        let (mut held, mut tied) = (Vec::new(), Vec::new());
        for parameter in &declared {
            let mut stages = cut.stages_of(&parameter.segments());
            stages.sort_unstable();
            if stages.contains(&own) {
                held.push(parameter.clone());
                if stages.len() > 1 {
                    let segments = parameter.segments();
                    let own_use = |segment: &&usize| cut.stages_of(&[**segment]) == [own];
                    tied.push(Tied {
                        parameter: parameter.clone(),
                        members: stages.iter().map(|stage| line[*stage]).collect(),
                        uses: segments.iter().filter(own_use).count(),
                    });
                }
            }
        }
        let trains = options.set.trains;
        let parameters = ParameterSet::allocate(context, held, &tied, options.set)?;
        let channels = Channel::open_all(context, &cut, trains)?;
        let recomputed = if options.recompute {
            model.recomputed()
        } else {
            Vec::new()
        };
        let program = Program {
            model,
            cut: Rc::new(cut),
            recomputed: recomputed.into(),
        };
        Ok(Pipeline {
            parameters,
            all_parameters: declared,
            context: context.clone(),
            schedule,
            program,
            channels,
        })
    }

    /// This rank's context.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The model.
    pub fn model(&self) -> &dyn Model {
        &*self.program.model
    }

    /// The parameters that this rank holds.
    pub fn parameters(&self) -> &ParameterSet {
        &self.parameters
    }

    /// The parameters of the full model, most of which other stages hold.
    pub fn declared(&self) -> &[Parameter] {
        &self.all_parameters
    }

    /// The segments that each stage holds.
    pub fn cut(&self) -> &Cut {
        &self.program.cut
    }

    /// How micro-batches pass through the stages.
    pub fn schedule(&self) -> &SchedulePlan {
        &self.schedule
    }

    /// Runs forward and backward of a batch. Collective.
    ///
    /// `d_loss`, one element, is the gradient of the loss: 1, or the loss scale. Returns the gradients, summed
    /// over all replicas, and on the last stage the index and loss of each micro-batch, as
    /// [`Loss::value`](crate::layers::Loss::value) gives it.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the batch and the schedule have different numbers of micro-batches, a rank holds no row
    /// of one, rows exceed the batch, or the parameters were allocated for inference; those of layers and messages.
    pub fn train(
        &self,
        batch: &Batch,
        d_loss: &Tensor,
    ) -> Result<(Gradients, Vec<(usize, Tensor)>)> {
        let (found, needed) = (batch.micro_batches.len(), self.schedule.num_micro_batches());
        if found != needed {
            let needed = format!("{needed}, as the schedule has");
            return Err(Error::invalid(
                "batch",
                format!("{found} micro-batches"),
                needed,
            ));
        }
        check_rows(batch)?;
        let step = self.parameters.begin_step(batch.step, batch.cut())?;
        let passes = batch
            .micro_batches
            .iter()
            .map(|batch| step.pass(batch.rows()));
        let mut stage = Stage::new(self, batch, passes.collect::<Result<_>>()?, Some(d_loss));
        engine::run(&mut stage, &self.schedule)?;
        let losses = stage.into_losses();
        Ok((step.finish()?, losses))
    }

    /// Runs the micro-batches forward through all stages. On the last stage, returns in order the result of
    /// `finish` for the wires of each: its loss by [`Model::objective`], or the outputs themselves.
    ///
    /// Each part processes all micro-batches before the stage's next part begins. Collective.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a rank holds no row of a micro-batch, and when rows exceed the batch; those of layers,
    /// messages and `finish`.
    pub fn evaluate<T>(
        &self,
        batch: &Batch,
        mut finish: impl FnMut(&Pass, &MicroBatch, Wires) -> Result<T>,
    ) -> Result<Vec<T>> {
        check_rows(batch)?;
        let evaluation = self.parameters.evaluate(batch.cut());
        let device = self.context.device().clone();
        device.without_gradients(|| {
            let passes = batch
                .micro_batches
                .iter()
                .map(|batch| evaluation.pass(batch.rows()));
            let mut stage = Stage::new(self, batch, passes.collect::<Result<_>>()?, None);
            let mut outputs = Vec::new();
            for chunk in 0..self.program.cut.stages().chunks {
                for micro_batch in 0..batch.micro_batches.len() {
                    outputs.extend(stage.evaluate(micro_batch, chunk, &mut finish)?);
                }
            }
            Ok(outputs)
        })
    }
}

fn check_segments(parameters: &[Parameter], num_segments: usize) -> Result<()> {
    for parameter in parameters {
        if let Some(segment) = parameter
            .segments()
            .into_iter()
            .find(|segment| *segment >= num_segments)
        {
            let found = format!("segment {segment}");
            let needed = format!("one of the model's {num_segments}, counted from 0");
            return Err(Error::invalid(
                format!("parameter {}", parameter.name()),
                found,
                needed,
            ));
        }
    }
    Ok(())
}

fn check_rows(batch: &Batch) -> Result<()> {
    let empty = batch
        .micro_batches
        .iter()
        .position(|batch| batch.rows().is_empty());
    match empty {
        None => Ok(()),
        Some(index) => {
            let found = format!("no row of micro-batch {index} on this rank");
            let needed = "at least as many rows as Data x Z x micro-batches";
            Err(Error::invalid("batch", found, needed))
        }
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pipeline({:?}, {:?})", self.context, self.parameters)
    }
}
