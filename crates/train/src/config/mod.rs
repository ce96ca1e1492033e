//! What a run is asked to be: one value, read from TOML, checked before anything runs.

mod bits;
mod bounds;
mod checkpoint;
mod checks;
mod choices;
mod data;
mod device;
mod doubts;
mod key;
mod location;
mod order;
mod overlap;
mod parallelism;
mod parse;
mod placement;
mod training;
mod tuning;
mod written;

pub use bits::BitsChoice;
use bounds::check_path;
pub use bounds::{Numbers, check_counts, check_numbers};
pub use checkpoint::CheckpointConfig;
pub use choices::{MemoryMode, ObjectiveKind, OptimiserKind, Precision};
pub use data::{DataConfig, EvaluationEntry, MixtureEntry};
pub use device::DeviceConfig;
pub use grid::machine::suggest;
pub use key::{Key, KeyType, Section};
pub use location::ConfigLocation;
pub use order::OrderChoice;
pub use overlap::{OVERLAP_MEANINGS, OverlapNames, overlap_from_names};
pub use parallel::memory::PlaceKind;
pub use parallelism::ParallelConfig;
pub(crate) use parse::refusal;
pub use placement::{ActivationPlaces, PlacementConfig, SegmentPlaces};
pub use training::TrainingConfig;
pub use tuning::{FrozenWeights, TuningConfig};

use crate::{
    Error, Families, ModelConfig, Result, Trainer,
    batches::Rows,
    placement::{best_order, depths},
    preference::{PreferenceModel, blank_pairs},
    run,
    trainer::Options,
};
use bootstrap::World;
use grid::{Axis, Demands, Grid, machine::Machine};
use hal::{DeviceSettings, files};
use parallel::{
    Context, Settings,
    memory::{ActivationMemory, SegmentMemory, Segments},
    pipeline::SchedulePlan,
    work::Work,
};
use serde::Serialize;
use std::{path::Path, sync::Arc};
use tensor::Device;

/// A whole configuration. Every key has a default; an unknown one is refused with the nearest that exists.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Config {
    /// Seed of initial values, data order and dropout.
    pub seed: u64,
    /// The model: its family, sizes and choices.
    pub model: ModelConfig,
    /// Where the data comes from.
    pub data: DataConfig,
    /// Steps, batch, optimiser, validation, checkpoints.
    pub training: TrainingConfig,
    /// Which parameters are trained.
    pub tuning: TuningConfig,
    /// Grid, schedule, overlap, threads.
    pub parallel: ParallelConfig,
    /// Choices about each rank's device.
    pub device: DeviceConfig,
    /// Where the state is that devices may have no room for.
    pub placement: PlacementConfig,
    /// Copies of the run's checkpoints outside its folder.
    pub checkpoint: CheckpointConfig,
}

impl Config {
    /// The default configuration of a model.
    pub fn new(model: ModelConfig) -> Config {
        Config {
            seed: 0,
            model,
            data: DataConfig::default(),
            training: TrainingConfig::default(),
            tuning: TuningConfig::default(),
            parallel: ParallelConfig::default(),
            device: DeviceConfig::default(),
            placement: PlacementConfig::default(),
            checkpoint: CheckpointConfig::default(),
        }
    }

    /// Reads a configuration file, whose model is of one of these families.
    ///
    /// # Errors
    /// [`Error::ConfigFile`] when it cannot be read; those of [`parse`](Config::parse), with the file.
    pub fn read(path: &Path, families: &Families) -> Result<Config> {
        let text = files::read_text(path).map_err(|source| Error::ConfigFile {
            path: path.into(),
            source,
        })?;
        Config::parse(&text, families).map_err(|error| error.in_file(path.into()))
    }

    /// Reads a configuration from TOML.
    ///
    /// # Errors
    /// [`Error::UnknownKey`] with the line and the nearest key; [`Error::UnknownFamily`]; [`Error::Syntax`] for a text that is
    /// not TOML, and for a value of another type.
    pub fn parse(text: &str, families: &Families) -> Result<Config> {
        parse::config(text, families)
    }

    /// Reads a configuration from the JSON in a checkpoint.
    ///
    /// # Errors
    /// As [`parse`](Config::parse); [`Error::Setting`] for JSON that is no table, or holds values that TOML does not have.
    pub fn from_json(value: serde_json::Value, families: &Families) -> Result<Config> {
        parse::config(&parse::toml_of(value)?, families)
    }

    /// The keys of every table but `[model]`, whose keys are its family's ([`Families::keys`]): the name of the table, empty
    /// for the keys above all tables, with its keys.
    pub fn keys() -> [(&'static str, Vec<Key>); 8] {
        #[derive(Serialize)]
        struct Above {
            seed: u64,
        }
        let seed = "Seed of initial values, data order and dropout.";
        [
            ("", vec![Key::of::<u64>("seed", seed, &Above { seed: 0 })]),
            ("data", DataConfig::keys()),
            ("training", TrainingConfig::keys()),
            ("tuning", TuningConfig::keys()),
            ("parallel", ParallelConfig::keys()),
            ("device", DeviceConfig::keys()),
            ("placement", PlacementConfig::keys()),
            ("checkpoint", CheckpointConfig::keys()),
        ]
    }

    /// The grid, once the vocabulary is known and everything fits it; where the order of axes is left to the library, in the
    /// default order, as [`grid_on`](Config::grid_on) alone knows the nodes.
    ///
    /// # Errors
    /// [`Error::Grid`], in one sentence with the numbers and the nearest grids that would work.
    pub fn grid(&self) -> Result<Grid> {
        let degrees = self.parallel.grid;
        let ranks = self
            .parallel
            .ranks
            .map_or_else(|| degrees.world_size(), Ok)?;
        let grid = Grid::for_ranks(degrees, self.parallel.order.or_default(), ranks)?;
        self.demands().check(&degrees)?;
        Ok(grid)
    }

    /// What model, batch and schedule ask of a grid.
    pub fn demands(&self) -> Demands {
        let demands = self.model.demands();
        Demands {
            stages: demands.stages / self.parallel.schedule.num_chunks().max(1),
            batch: self.training.batch,
            micro_batches: self.training.micro_batches,
            ..demands
        }
    }

    /// What each rank's device is opened with. Bits that are not settled yet ask nothing of it.
    pub fn device_settings(&self) -> DeviceSettings {
        self.device.settings(self.training.reproducible.or_run())
    }

    /// The context of this rank on the grid that suits the nodes of the job. Collective. Bits that are not settled yet are
    /// [settled](run::settle_bits) for this device.
    ///
    /// # Errors
    /// As [`grid_on`](Config::grid_on), [`Context::new`] and [`machine`](Config::machine).
    pub fn context(&self, world: &World, device: &Device) -> Result<Context> {
        let mut config = self.clone();
        if self.training.reproducible == BitsChoice::Auto {
            run::settle_bits(&mut config, device.capabilities(), None)?;
        }
        let grid = self.grid_on(world)?;
        let context = Context::new(world.clone(), grid, device.clone(), config.settings())?;
        if let Some(machine) = self.machine()? {
            context.describe_machine(machine);
        }
        Ok(context)
    }

    /// A trainer of the model. Collective.
    ///
    /// # Cost
    /// With activations in files, also the host's part of a step, which finds the space that they need.
    /// # Errors
    /// As [`Trainer::new`]; [`Error::Parallel`] if a disk has no room for activations; [`Error::Setting`] if nobody has settled
    /// `training.memory = "auto"`, as the planner does.
    pub fn trainer(&self, context: &Context) -> Result<Trainer> {
        if self.training.memory == MemoryMode::Auto {
            let needed = "stated, or a program that settles it before its ranks start (plan::memory::settle)";
            return Err(Error::setting("training.memory", "auto", needed));
        }
        let build = |builder: &nn::Builder| self.build(builder);
        let trainer = Trainer::boxed(
            context,
            build,
            self.training.optimiser(),
            Options {
                stages: self.depths()?,
                ..self.trainer_options()
            },
        )?;
        let moved = self.placement.activations.segments();
        let is_moved = [&moved.host, &moved.files]
            .iter()
            .any(|of| **of != Segments::None);
        let device = context.device().capabilities();
        // To allocate may wait for running work, which may be a message from a rank that waits for this one.
        let allocates = !device.host_memory && context.grid().world_size() > 1;
        if device.holds_values && (is_moved || allocates) {
            self.make_room(&trainer)?;
        }
        Ok(trainer)
    }

    // Takes what steps will take, before the first: that of the second too, which knows in which order weights are used and gathers
    // them ahead. A step that fails has a reason of its own, which the run will report.
    fn make_room(&self, trainer: &Trainer) -> Result<()> {
        let context = trainer.context();
        let seen = |trainer: &Trainer| {
            let beyond = trainer.pipeline().activation_bytes_beyond();
            (beyond, trainer.context().device().block_sizes())
        };
        let mut dry = self.clone();
        dry.training.reproducible = context.settings().reproducible.into();
        let Ok(stages) = run::dry::steps(dry, (*context.coordinates(), 2), seen) else {
            return Ok(());
        };
        let (beyond, blocks) = &stages[context.index(Axis::Pipeline)];
        trainer.pipeline().reserve_activations(*beyond)?;
        match context.device().capabilities().host_memory {
            true => Ok(()),
            false => Ok(context.device().reserve_blocks(blocks)?),
        }
    }

    /// The number of segments in each part of the pipeline, by [`placement::depths`](crate::placement::depths); `None` if there
    /// is one part.
    ///
    /// # Cost
    /// That of [`work`](Config::work), if there are several parts.
    /// # Errors
    /// As [`placement::depths`](crate::placement::depths), [`work`](Config::work) and [`machine`](Config::machine).
    pub fn depths(&self) -> Result<Option<Vec<usize>>> {
        let stages = self.parallel.schedule.stages(self.parallel.grid.pipeline);
        if stages.num_parts() == 1 && self.parallel.stages.is_none() {
            return Ok(None);
        }
        depths(self, &self.work()?, self.machine()?.as_deref()).map(Some)
    }

    /// Flop of a row as published speeds count them, with or without recomputation; of a family that has no such count, those that
    /// its model does.
    ///
    /// # Errors
    /// As [`work`](Config::work).
    pub fn flop_per_row(&self, recompute: bool) -> Result<f64> {
        match self.model.published_flop_per_row(recompute) {
            Some(flop) => Ok(flop),
            None => Ok(self.work()?.flop_per_row()),
        }
    }

    /// What the model does for each row of the batch: counted, not computed.
    ///
    /// # Errors
    /// [`Error::Parallel`] for a model that cannot be built or passed through.
    pub fn work(&self) -> Result<Work> {
        let dtype = self.training.precision.dtype();
        let rows = self.blank_rows(1);
        let build = |context: &Context| {
            let builder = nn::Builder::new(context);
            let model = self.build(&builder)?;
            Ok((model, builder.parameters()))
        };
        Ok(Work::count(
            |device| rows.upload(device, dtype, 0..1),
            dtype,
            build,
        )?)
    }

    /// Declares the model, with what is frozen and what has adapters.
    ///
    /// # Errors
    /// Those of its layers; [`Error::Invalid`](parallel::Error::Invalid) for a pattern of `[tuning]` that selects nothing.
    pub fn build(&self, builder: &nn::Builder) -> parallel::Result<Box<dyn parallel::Model>> {
        let builder = builder.tuned(self.tuning.tuning());
        let model = self.model.build(&builder)?;
        builder.check_tuning()?;
        Ok(match (self.training.objective, self.model.text()) {
            (ObjectiveKind::Dpo, Some(text)) => {
                let beta = self.training.dpo_beta;
                Box::new(PreferenceModel::new(model, text.vocabulary, beta))
            }
            _ => model,
        })
    }

    /// Rows of batches without values, where only their shapes matter.
    pub fn blank_rows(&self, rows: usize) -> Rows {
        let blank = self.model.blank_rows(rows);
        match (self.training.objective, self.model.text()) {
            (ObjectiveKind::Dpo, Some(text)) => blank_pairs(blank, rows, text.context),
            _ => blank,
        }
    }

    /// How a trainer of this configuration runs its steps.
    pub fn trainer_options(&self) -> Options {
        let training = &self.training;
        Options {
            batch: training.batch,
            micro_batches: training.micro_batches,
            precision: training.precision,
            schedule: self.parallel.schedule,
            stages: self.parallel.stages.clone(),
            sharding: self.parallel.sharding,
            places: self.placement.of_state(),
            memory: self.activation_memory(),
            clip_norm: training.clip_norm,
            loss_scale: training.loss_scale,
            graph: training.graph,
            digest_every: training.digest_every,
            ..Options::default()
        }
    }

    /// What segments keep between forward and backward, and where.
    pub fn activation_memory(&self) -> ActivationMemory {
        self.placement
            .of_activations(self.training.recompute.clone())
    }

    /// States what each segment, of these kinds, keeps and where.
    pub fn state_memory<K: AsRef<str>>(&mut self, segments: &[SegmentMemory], kinds: &[K]) {
        let memory = self.activation_memory().with_segments(segments, kinds);
        self.training.recompute = memory.recompute;
        self.placement.activations = SegmentPlaces {
            host: memory.host,
            files: memory.files,
        }
        .into();
    }

    /// The grid in the order of axes that suits the nodes of the job. Collective where there are several.
    ///
    /// # Errors
    /// As [`grid`](Config::grid) and [`ordered_on`](Config::ordered_on).
    pub fn grid_on(&self, world: &World) -> Result<Grid> {
        self.grid().and_then(|_| self.ordered_on(world))
    }

    /// As [`grid_on`](Config::grid_on), for a model that asks nothing of the grid.
    ///
    /// # Errors
    /// [`Error::Grid`] if the job has another number of ranks. Where the order is left to the library, also as
    /// [`machine`](Config::machine) and [`best_order`], and [`Error::Parallel`] from the exchange
    /// of places.
    pub fn ordered_on(&self, world: &World) -> Result<Grid> {
        let order = match self.parallel.order {
            OrderChoice::Fixed(order) => order,
            OrderChoice::Auto => {
                let nodes = parallel::mapping::nodes(world)?;
                best_order(self, &nodes, self.machine()?.as_deref())?
            }
        };
        Ok(Grid::for_ranks(self.parallel.grid, order, world.size())?)
    }

    /// The description of the machine, if one is named.
    ///
    /// # Errors
    /// [`Error::Machine`] when no machine has that name, and for a file that cannot be read or does not describe one.
    pub fn machine(&self) -> Result<Option<Arc<Machine>>> {
        let named = self
            .parallel
            .machine
            .as_deref()
            .map(Machine::find)
            .transpose();
        named
            .map(|machine| machine.map(Arc::new))
            .map_err(Error::Machine)
    }

    /// The schedule for the grid's stages.
    ///
    /// # Errors
    /// [`Error::Setting`] when it cannot be built.
    pub fn schedule(&self) -> Result<SchedulePlan> {
        let (kind, stages) = (self.parallel.schedule, self.parallel.grid.pipeline);
        SchedulePlan::new(kind, stages, self.training.micro_batches).map_err(as_config)
    }

    /// What the layers need to know of the configuration. Bits that are not [settled](run::settle_bits) depend on the
    /// grid.
    pub fn settings(&self) -> Settings {
        let parallel = &self.parallel;
        Settings {
            overlap: parallel.overlap.0,
            gather_budget: parallel.gather_budget_mib << 20,
            keep_gathered: parallel.keep_gathered,
            gather_wide: parallel.gather_wide,
            gradient_wire: parallel.gradient_wire,
            sequence_parallel: parallel.sequence_parallel && parallel.grid.x > 1,
            context_attention: parallel.context_attention,
            bucket_bytes: parallel.bucket_mib << 20,
            hierarchical: parallel.hierarchical,
            positions: parallel.positions,
            reproducible: self.training.reproducible.or_run(),
            checked: parallel.checked,
            seed: self.seed,
        }
    }
}

pub(crate) fn as_config(error: hal::Error) -> Error {
    match error {
        hal::Error::Invalid {
            operation,
            found,
            needed,
        } => {
            // Which word stands before it is each error's own.
            let found = found.strip_prefix("found ").unwrap_or(&found);
            Error::setting(operation, found, needed)
        }
        other => Error::Parallel(other),
    }
}
