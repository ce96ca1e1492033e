//! A model on its stages.

use super::{
    channel::Channel,
    engine,
    part::Program,
    plan::SchedulePlan,
    round::Rounds,
    saver::Saver,
    schedule::evaluation_order,
    stage::{BatchRun, Stage},
    streams,
    versions::{Version, Versions},
};
use crate::{
    Context, Pass,
    cache::{CachedRows, NewTokens, PagePool, SequenceCache},
    data::{Gradients, ParameterSet, SetOptions, Tied},
    layers::loss::LossValue,
    memory::{ActivationMemory, SegmentMemory, recomputed_runs},
    model::{Batch, Cut, MicroBatch, Model, Wires},
    parameter::Parameter,
};
use grid::Axis;
use hal::error::Counted;
use std::{cell::RefCell, fmt, rc::Rc};
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
    pub(super) versions: Versions,
    // What was run of the next batch.
    ahead: RefCell<Option<BatchRun>>,
    all_parameters: Vec<Parameter>,
    context: Context,
    schedule: SchedulePlan,
    pub(super) channels: Vec<Option<Channel>>,
    pub(super) saver: Option<Saver>,
    // Of the sequences that it has made.
    pages: PagePool,
}

/// A model, and the parameters that it has declared.
pub type Built = (Rc<dyn Model>, Vec<Parameter>);

impl Pipeline {
    /// Cuts a model, and allocates memory for the parameters of this rank's stage. `build` builds it, once for each version of
    /// the weights that the schedule holds, always the same. Collective.
    ///
    /// # Errors
    /// [`Error::Invalid`] as for [`Cut::new`] and [`ParameterSet::allocate`], for a parameter of a segment that the model
    /// does not have, and for one that several stages use, if each stage updates its weights by itself;
    /// [`Error::OutOfMemory`]; those of `build` and of joining other stages.
    pub fn new(
        context: &Context,
        mut build: impl FnMut() -> Result<Built>,
        schedule: SchedulePlan,
        options: Options,
    ) -> Result<Pipeline> {
        let num_versions = schedule.num_versions(context.index(Axis::Pipeline));
        let set = SetOptions {
            versions: num_versions,
            ..options.set.clone()
        };
        let stages = schedule.stages(context.degree(Axis::Pipeline));
        let (model, declared) = build()?;
        let cut = Cut::new(&*model, &declared, stages, options.depths.as_deref())?;
        check_segments(&declared, cut.num_segments())?;
        if schedule.updates_each_micro_batch() {
            check_untied(&cut, &declared)?;
        }
        let (own, tied) = held(context, &cut, &declared);
        let parameters = ParameterSet::allocate(context, own, &tied, set)?;
        let sharing = streams::sharing(context, &schedule, &cut)?;
        let channels = Channel::open_all(context, &cut, (options.set.trains, sharing))?;
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
            versions: Versions::new(versions)?,
            ahead: RefCell::default(),
            all_parameters: declared,
            context: context.clone(),
            schedule,
            channels,
            saver,
            pages: PagePool::default(),
        })
    }

    /// This rank's context.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The model.
    pub fn model(&self) -> &dyn Model {
        &*self.versions.latest().program.model
    }

    /// The parameters that this rank holds, with the latest weights.
    pub fn parameters(&self) -> &ParameterSet {
        &self.versions.latest().parameters
    }

    /// The parameters with which the next batch computes: those of [`parameters`](Pipeline::parameters), unless the schedule
    /// delays gradients.
    pub fn next_parameters(&self) -> &ParameterSet {
        &self.versions.next().parameters
    }

    /// Drops what was run of a next batch.
    pub fn forget_ahead(&self) {
        self.ahead.take();
        self.versions.forget_rounds();
    }

    /// Sets all versions of the weights to the latest one, as in a run that begins.
    ///
    /// # Errors
    /// As [`ParameterSet::catch_up`].
    pub fn equal_versions(&self) -> Result<()> {
        self.forget_ahead();
        self.versions.equal()
    }

    /// Updates by which the gradients of a parameter are late on the stage that uses it: the earlier versions that it has.
    pub fn updates_late(&self, parameter: &Parameter) -> usize {
        let stages = self.cut().stages_of(&parameter.segments());
        let versions = stages
            .iter()
            .map(|stage| self.schedule.num_versions(*stage));
        versions.max().map_or(0, |versions| versions - 1)
    }

    /// The parameters of the full model, most of which other stages hold.
    pub fn declared(&self) -> &[Parameter] {
        &self.all_parameters
    }

    /// The segments that each stage holds.
    pub fn cut(&self) -> &Cut {
        &self.versions.latest().program.cut
    }

    /// How micro-batches pass through the stages.
    pub fn schedule(&self) -> &SchedulePlan {
        &self.schedule
    }

    /// Bytes of the host's memory, and of a file, for all activations that have been there at a time in the steps so far.
    pub fn activation_bytes_beyond(&self) -> [u64; 2] {
        let saver = self.saver.as_ref();
        saver.map_or([0; 2], Saver::num_bytes)
    }

    /// Takes that memory and that space. Without it, they grow in the first step, and the host's memory is not
    /// [locked](tensor::Beyond::reserve).
    ///
    /// # Errors
    /// [`Error::Invalid`] if the host or the disk has no room for it; [`Error::Vendor`].
    pub fn reserve_activations(&self, bytes: [u64; 2]) -> Result<()> {
        let saver = self.saver.as_ref();
        saver.map_or(Ok(()), |saver| saver.reserve(bytes))
    }

    /// Runs forward and backward of a batch. Collective.
    ///
    /// `d_loss`, one element, is the gradient of the loss: 1, or the loss scale. `update` receives the gradients, summed over
    /// all replicas: once at the end, or after each micro-batch, if each stage [updates its weights
    /// then](SchedulePlan::updates_each_micro_batch). Returns on the last stage the index and loss of each micro-batch.
    ///
    /// If the schedule delays gradients, the batch computes with the weights of earlier updates, and `next`, the batch of the
    /// next call, may be begun. Whether it is known changes no number. If it was begun, its rows are those that were announced,
    /// and its gradients belong to the `d_loss` of that call.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the batch and the schedule have different numbers of micro-batches, a rank holds no row
    /// of one, rows exceed the batch or do not divide into the updates of the step, another batch was announced, or the parameters
    /// were allocated for inference; those of layers, messages and `update`.
    pub fn train<E: From<Error>>(
        &self,
        batch: &Batch,
        next: Option<&Batch>,
        d_loss: &Tensor,
        mut update: impl FnMut(Gradients) -> std::result::Result<(), E>,
    ) -> std::result::Result<Vec<(usize, LossValue)>, E> {
        let ahead = self.ahead.take();
        let was_ahead = ahead.is_some();
        let mut stage = match ahead {
            Some(run) => {
                check_announced(batch, run.batch())?;
                let pipeline = self;
                Stage { pipeline, run }
            }
            None => {
                self.forget_ahead();
                self.begin(batch, d_loss)?
            }
        };
        let next = next.filter(|_| matches!(self.schedule, SchedulePlan::Overlapped(_)));
        let mut begun = next.map(|next| self.begin(next, d_loss)).transpose()?;
        let ends = (was_ahead, begun.as_mut());
        engine::run(&mut stage, &self.schedule, ends, &mut update)?;
        self.ahead.replace(begun.map(|stage| stage.run));
        Ok(stage.run.into_losses())
    }

    // A batch of which nothing has run.
    fn begin(&self, batch: &Batch, d_loss: &Tensor) -> Result<Stage<'_>> {
        let (found, needed) = (batch.micro_batches.len(), self.schedule.num_micro_batches());
        if found != needed {
            let needed = format!("{needed}, as the schedule has");
            return Err(Error::invalid(
                "batch",
                Counted(found, "micro-batch").to_string(),
                needed,
            ));
        }
        check_rows(batch)?;
        let updates = self.schedule.num_updates();
        if !batch.num_rows.is_multiple_of(updates) {
            let found = format!("{} rows", batch.num_rows);
            let needed = format!("a multiple of the {updates} updates of a step");
            return Err(Error::invalid("batch", found, needed));
        }
        let mut rounds = Rounds::training(&self.schedule);
        if !self.schedule.updates_each_micro_batch() {
            // Not within the step, where gradients of the batch before may already be in the memory that both use.
            rounds.begin(self, batch)?;
        }
        Ok(Stage::new(self, batch, rounds, Some(d_loss)))
    }

    /// Runs the micro-batches forward through all stages. On the last stage, returns in order the result of
    /// `finish` for the wires of each: its loss by [`Model::objective`], or the outputs themselves.
    ///
    /// Groups of as many micro-batches as there are stages go through all parts, one after the other. Collective.
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

    /// A sequence of no tokens, whose keys and values [`extend`](Pipeline::extend) keeps on this rank.
    pub fn sequence(&self) -> SequenceCache {
        self.pages.sequence()
    }

    /// As [`evaluate`](Pipeline::evaluate), on the new tokens of sequences: `rows` holds those of each micro-batch, in the order
    /// of its rows. Their keys and values are kept.
    ///
    /// # Errors
    /// As there; [`Error::Invalid`] for a model that is not [incremental](Model::is_incremental), and if a micro-batch has
    /// other rows, rows of unequally many tokens, or sequences of another pipeline. After an error the caches are not to be used.
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
                "{}, and new tokens of {}",
                Counted(batch.micro_batches.len(), "micro-batch"),
                rows.len()
            );
            return Err(Error::invalid("extend", found, "new tokens of every row"));
        }
        let cached = rows.iter().map(|rows| CachedRows::new(rows, &self.pages));
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
        } = self.versions.latest();
        let evaluation = parameters.evaluate(batch.cut());
        let device = self.context.device().clone();
        device.without_gradients(|| {
            let passes = batch
                .micro_batches
                .iter()
                .map(|batch| evaluation.pass(batch.rows()));
            let passes = prepare(passes.collect::<Result<_>>()?)?;
            let rounds = Rounds::evaluation(program, passes);
            let mut stage = Stage::new(self, batch, rounds, None);
            let mut outputs = Vec::new();
            let micro_batches = 0..batch.micro_batches.len();
            for (chunk, micro_batch) in evaluation_order(self.cut().stages(), micro_batches) {
                outputs.extend(stage.evaluate(micro_batch, chunk, &mut finish)?);
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

// Its copies would be updated with the same sum, for which the last stage would wait in each update.
fn check_untied(cut: &Cut, declared: &[Parameter]) -> Result<()> {
    for parameter in declared {
        let stages = cut.stages_of(&parameter.segments());
        if stages.len() > 1 {
            let needed = "one stage, because with schedule pipedream each stage updates its weights by itself: \
                          untie it, or cut the model elsewhere";
            let found = format!("uses on stages {stages:?}");
            return Err(Error::invalid(
                format!("parameter {}", parameter.name()),
                found,
                needed,
            ));
        }
    }
    Ok(())
}

fn check_announced(batch: &Batch, announced: &Batch) -> Result<()> {
    let told = |batch: &Batch| {
        // Steps are numbered from 1 wherever people read them.
        format!(
            "step {} of {} in {}",
            batch.step + 1,
            Counted(batch.num_rows, "row"),
            Counted(batch.micro_batches.len(), "micro-batch")
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
