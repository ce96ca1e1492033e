//! A model on its stages.

use super::{
    channel::Channel,
    engine,
    part::Program,
    plan::SchedulePlan,
    saver::Saver,
    stage::{BatchRun, Stage},
};
use crate::{
    Context, Pass,
    cache::{CachedRows, NewTokens},
    data::{Gradients, ParameterSet, SetOptions, Tied, TrainingStep},
    memory::{ActivationMemory, SegmentMemory, recomputed_runs},
    model::{Batch, Cut, MicroBatch, Model, Wires},
    parameter::Parameter,
};
use grid::Axis;
use std::{
    cell::{Cell, RefCell},
    fmt,
    rc::Rc,
};
use tensor::{Error, Result, Tensor};

/// How a model is placed on its stages.
#[derive(Clone, Debug)]
pub struct Options {
    /// The purpose of the parameters' buffers.
    pub set: SetOptions,
    /// What segments keep between forward and backward, and where.
    pub memory: ActivationMemory,
    /// The number of segments in each part, from the first part to the last; without them, the largest cost of a part is
    /// minimal.
    pub depths: Option<Vec<usize>>,
}

/// The part of a model that this rank's stage runs, with its parameters and its channels to the other stages.
pub struct Pipeline {
    // One, or two that take turns.
    versions: Vec<Version>,
    // The index of the one with the latest weights.
    latest: Cell<usize>,
    // What was run of the next batch.
    ahead: RefCell<Option<Ahead>>,
    all_parameters: Vec<Parameter>,
    context: Context,
    schedule: SchedulePlan,
    pub(super) channels: Vec<Option<Channel>>,
    pub(super) saver: Option<Saver>,
}

// A version of the weights, with the model that computes with it.
struct Version {
    parameters: ParameterSet,
    program: Program,
}

// A step that has begun before the one before it has ended.
struct Ahead {
    step: TrainingStep,
    run: BatchRun,
}

/// A model, and the parameters that it has declared.
pub type Built = (Rc<dyn Model>, Vec<Parameter>);

impl Pipeline {
    /// Cuts a model, and allocates memory for the parameters of this rank's stage. `build` builds it, once for each version of
    /// the weights that the schedule holds, always the same. Collective.
    ///
    /// # Errors
    /// [`Error::Invalid`] as for [`Cut::new`] and [`ParameterSet::allocate`], and for a parameter of a segment that the
    /// model does not have; [`Error::OutOfMemory`]; those of `build` and of joining other stages.
    pub fn new(
        context: &Context,
        mut build: impl FnMut() -> Result<Built>,
        schedule: SchedulePlan,
        options: Options,
    ) -> Result<Pipeline> {
        let num_versions = schedule.num_versions();
        let set = SetOptions {
            versions: num_versions > 1,
            ..options.set.clone()
        };
        let stages = schedule.stages(context.degree(Axis::Pipeline));
        let (model, declared) = build()?;
        let cut = Cut::new(&*model, &declared, stages, options.depths.as_deref())?;
        check_segments(&declared, cut.num_segments())?;
        let (own, tied) = held(context, &cut, &declared);
        let parameters = ParameterSet::allocate(context, own, &tied, set)?;
        let channels = Channel::open_all(context, &cut, options.set.trains)?;
        let kinds: Vec<&str> = (0..cut.num_segments())
            .map(|segment| model.kind(segment))
            .collect();
        let runs = model.recomputed();
        let memory = options.memory.of_segments(&kinds, &runs)?;
        let parts = cut.parts_of(context.index(Axis::Pipeline));
        let own: Vec<SegmentMemory> = parts.flat_map(|part| memory[part].to_vec()).collect();
        let saver = Saver::new(context, &options.memory, &own)?;
        let program = Program {
            recomputed: recomputed_runs(&memory, &runs).into(),
            memory: memory.into(),
            model,
            cut: Rc::new(cut),
        };
        let mut versions = vec![Version {
            parameters,
            program,
        }];
        while versions.len() < num_versions {
            let first = &versions[0];
            let gradients = schedule.version_gradients(context.index(Axis::Pipeline));
            let (model, declared) = build()?;
            let (own, tied) = held(context, &first.program.cut, &declared);
            versions.push(Version {
                parameters: first.parameters.version(own, &tied, gradients)?,
                program: Program {
                    model,
                    ..first.program.clone()
                },
            });
        }
        Ok(Pipeline {
            latest: Cell::new(versions.len() - 1),
            versions,
            ahead: RefCell::default(),
            all_parameters: declared,
            context: context.clone(),
            schedule,
            channels,
            saver,
        })
    }

    /// This rank's context.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The model.
    pub fn model(&self) -> &dyn Model {
        &*self.latest().program.model
    }

    /// The parameters that this rank holds, with the latest weights.
    pub fn parameters(&self) -> &ParameterSet {
        &self.latest().parameters
    }

    /// The parameters with which the next batch computes: those of [`parameters`](Pipeline::parameters), unless the schedule
    /// delays gradients.
    pub fn next_parameters(&self) -> &ParameterSet {
        &self.versions[self.next_version()].parameters
    }

    /// Drops what was run of a next batch.
    pub fn forget_ahead(&self) {
        self.ahead.take();
    }

    fn latest(&self) -> &Version {
        &self.versions[self.latest.get()]
    }

    fn next_version(&self) -> usize {
        (self.latest.get() + 1) % self.versions.len()
    }

    /// The parameters of the full model, most of which other stages hold.
    pub fn declared(&self) -> &[Parameter] {
        &self.all_parameters
    }

    /// The segments that each stage holds.
    pub fn cut(&self) -> &Cut {
        &self.versions[0].program.cut
    }

    /// How micro-batches pass through the stages.
    pub fn schedule(&self) -> &SchedulePlan {
        &self.schedule
    }

    /// The length of a file for all activations that have been away at a time in the steps so far; 0 if there is none.
    pub fn activation_file_bytes(&self) -> u64 {
        let saver = self.saver.as_ref();
        saver.map_or(0, Saver::file_bytes)
    }

    /// Takes the space for such a file. Without it, the file grows in the first step.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the disk has no room for it.
    pub fn reserve_activation_file(&self, bytes: u64) -> Result<()> {
        let saver = self.saver.as_ref();
        saver.map_or(Ok(()), |saver| saver.reserve(bytes))
    }

    /// Runs forward and backward of a batch. Collective.
    ///
    /// `d_loss`, one element, is the gradient of the loss: 1, or the loss scale. Returns the gradients, summed
    /// over all replicas, and on the last stage the index and loss of each micro-batch, as
    /// [`Loss::value`](crate::layers::Loss::value) gives it.
    ///
    /// If the schedule delays gradients, the batch computes with the weights of one update before, and `next`, the batch of the
    /// next call, may be begun. Whether it is known changes no number. If it was begun, its rows are those that were announced,
    /// and its gradients belong to the `d_loss` of that call.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the batch and the schedule have different numbers of micro-batches, a rank holds no row
    /// of one, rows exceed the batch, another batch was announced, or the parameters were allocated for inference; those of
    /// layers and messages.
    pub fn train(
        &self,
        batch: &Batch,
        next: Option<&Batch>,
        d_loss: &Tensor,
    ) -> Result<(Gradients, Vec<(usize, Tensor)>)> {
        let own = self.next_version();
        let ahead = self.ahead.take();
        let was_ahead = ahead.is_some();
        let (mut stage, step) = match ahead {
            Some(Ahead { step, run }) => {
                check_announced(batch, run.batch())?;
                let stage = Stage {
                    pipeline: self,
                    run,
                };
                (stage, step)
            }
            None => self.begin(own, batch, d_loss)?,
        };
        let next = next.filter(|_| self.versions.len() > 1);
        let other = (own + 1) % self.versions.len();
        let mut begun = next
            .map(|next| self.begin(other, next, d_loss))
            .transpose()?;
        let of_next = begun.as_mut().map(|(stage, _)| stage);
        engine::run(&mut stage, &self.schedule, (was_ahead, of_next))?;
        let losses = stage.run.into_losses();
        let gradients = step.finish()?;
        if self.versions.len() > 1 {
            // No pass reads these weights any more, so they become the latest ones, which the update changes.
            self.versions[own].parameters.catch_up()?;
            self.latest.set(own);
        }
        let rest = begun.map(|(stage, step)| Ahead {
            step,
            run: stage.run,
        });
        self.ahead.replace(rest);
        Ok((gradients, losses))
    }

    // A training step on a version.
    fn begin(
        &self,
        version: usize,
        batch: &Batch,
        d_loss: &Tensor,
    ) -> Result<(Stage<'_>, TrainingStep)> {
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
        let Version {
            parameters,
            program,
        } = &self.versions[version];
        let step = parameters.begin_step(batch.step, batch.cut())?;
        let passes = batch.micro_batches.iter();
        let passes = passes.map(|batch| step.pass(batch.rows()));
        let passes = passes.collect::<Result<_>>()?;
        let stage = Stage::new(self, program, batch, passes, Some(d_loss));
        Ok((stage, step))
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
        finish: impl FnMut(&Pass, &MicroBatch, Wires) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.forward(batch, Ok, finish)
    }

    /// As [`evaluate`](Pipeline::evaluate), on the new tokens of sequences: `rows` holds those of each micro-batch, in the order
    /// of its rows. Their keys and values are kept.
    ///
    /// # Errors
    /// As there; [`Error::Invalid`] for a model that is not [incremental](Model::is_incremental), and if a micro-batch has
    /// other rows, or rows of unequally many tokens. After an error the caches are not to be used.
    pub fn extend<T>(
        &self,
        batch: &Batch,
        rows: &[Vec<NewTokens>],
        finish: impl FnMut(&Pass, &MicroBatch, Wires) -> Result<T>,
    ) -> Result<Vec<T>> {
        if !self.model().is_incremental() {
            let needed = "one that declares it can run on new tokens alone";
            return Err(Error::invalid("extend", "a model", needed));
        }
        let fits = |(batch, rows): (&MicroBatch, &Vec<NewTokens>)| batch.rows().len() == rows.len();
        let mut pairs = batch.micro_batches.iter().zip(rows);
        if batch.micro_batches.len() != rows.len() || !pairs.all(fits) {
            let found = format!(
                "{} micro-batches, and new tokens of {}",
                batch.micro_batches.len(),
                rows.len()
            );
            return Err(Error::invalid("extend", found, "new tokens of every row"));
        }
        let cached = rows.iter().map(|rows| CachedRows::new(rows));
        let cached = cached.collect::<Result<Vec<_>>>()?;
        let with_cache = |passes: Vec<Pass>| {
            let pairs = passes.iter().zip(&cached);
            Ok(pairs
                .map(|(pass, rows)| pass.with_cached(rows.clone()))
                .collect())
        };
        let outputs = self.forward(batch, with_cache, finish)?;
        cached.iter().try_for_each(CachedRows::commit)?;
        Ok(outputs)
    }

    fn forward<T>(
        &self,
        batch: &Batch,
        prepare: impl FnOnce(Vec<Pass>) -> Result<Vec<Pass>>,
        mut finish: impl FnMut(&Pass, &MicroBatch, Wires) -> Result<T>,
    ) -> Result<Vec<T>> {
        check_rows(batch)?;
        let Version {
            parameters,
            program,
        } = self.latest();
        let evaluation = parameters.evaluate(batch.cut());
        let device = self.context.device().clone();
        device.without_gradients(|| {
            let passes = batch
                .micro_batches
                .iter()
                .map(|batch| evaluation.pass(batch.rows()));
            let passes = prepare(passes.collect::<Result<_>>()?)?;
            let mut stage = Stage::new(self, program, batch, passes, None);
            let mut outputs = Vec::new();
            for chunk in 0..self.cut().stages().chunks {
                for micro_batch in 0..batch.micro_batches.len() {
                    outputs.extend(stage.evaluate(micro_batch, chunk, &mut finish)?);
                }
            }
            Ok(outputs)
        })
    }
}

// The parameters of this rank's stage, and those that other stages hold too.
fn held(context: &Context, cut: &Cut, declared: &[Parameter]) -> (Vec<Parameter>, Vec<Tied>) {
    let own = context.index(Axis::Pipeline);
    let line = context.members(&[Axis::Pipeline]);
    let (mut held, mut tied) = (Vec::new(), Vec::new());
    for parameter in declared {
        let mut stages = cut.stages_of(&parameter.segments());
        stages.sort_unstable();
        if !stages.contains(&own) {
            continue;
        }
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
    (held, tied)
}

fn check_announced(batch: &Batch, announced: &Batch) -> Result<()> {
    let told = |batch: &Batch| {
        let micro_batches = batch.micro_batches.len();
        let rows = batch.num_rows;
        format!(
            "step {} of {rows} rows in {micro_batches} micro-batches",
            batch.step
        )
    };
    match told(batch) == told(announced) {
        true => Ok(()),
        false => {
            let needed = format!("{}, which was announced", told(announced));
            Err(Error::invalid("batch", told(batch), needed))
        }
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
        write!(f, "Pipeline({:?}, {:?})", self.context, self.parameters())
    }
}
