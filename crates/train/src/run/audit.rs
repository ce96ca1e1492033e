//! An audit: the steps from one checkpoint to a later one, executed again.
//!
//! [`take_layout`] gives the audit the layout on which the bits depend, [`disagreements`] compares what the later checkpoint
//! states about its run with the audit, and [`replay`](fn@replay) executes the steps. Whether the states are equal is what
//! [`diff`](fn@crate::checkpoint::diff) finds.

use super::{
    Observer, Run, Stop,
    resume::{FREE_TABLES, differences},
    run::begin,
};
use crate::{
    Config, Error, Mismatch, Result,
    checkpoint::{Reader, Retention},
    config::{DeviceConfig, Precision},
    trainer::{Callback, StepDone, Trainer, stored},
};
use bootstrap::World;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{fmt, ops::ControlFlow, path::PathBuf};
use tensor::Device;

/// Keys outside of [`FREE_TABLES`] that decide neither a loss nor a weight where sums are reproducible on any grid. The content
/// of the data is compared by its fingerprint.
pub const IDLE_KEYS: [&str; 21] = [
    "data.path",
    "data.mixture",
    "data.extensions",
    "data.token_type",
    "training.micro_batches",
    "training.validate_every",
    "training.validation_batches",
    "training.checkpoint_every",
    "training.checkpoint_async",
    "training.local_checkpoint_every",
    "training.local_checkpoint_dir",
    "training.keep_checkpoints",
    "training.keep_every",
    "training.keep_best",
    "training.recompute",
    "training.memory",
    "training.graph",
    "training.digest_every",
    "training.straggler_every",
    "training.straggler_below",
    "training.tensorboard",
];

/// Keys of [`FREE_TABLES`] that decide no bit even where the bits depend on the grid.
const NEVER_DECIDE: [&str; 15] = [
    "checkpoint.store",
    "checkpoint.store_timeout_s",
    "device.memory_limit",
    "placement.optimiser",
    "placement.update",
    "placement.weights",
    "placement.gradients",
    "placement.activations",
    "placement.folder",
    "placement.piece_kib",
    "parallel.ranks",
    "parallel.overlap",
    "parallel.threads",
    "parallel.timeout_s",
    "parallel.checked",
];

/// A value in a checkpoint, or among an audit's settings, that is not the one needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Disagreement {
    /// What has the value: for a setting, its key, as in `training.learning_rate`.
    pub key: String,
    /// The value found.
    pub found: String,
    /// The value needed.
    pub needed: String,
}

impl Disagreement {
    fn new(key: impl Into<String>, found: impl ToString, needed: impl ToString) -> Disagreement {
        Disagreement {
            key: key.into(),
            found: found.to_string(),
            needed: needed.to_string(),
        }
    }
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Disagreement { key, found, needed } = self;
        write!(f, "{key}: found {found}, needs {needed}")
    }
}

/// Gives a configuration the tables `[parallel]` and `[device]`, except for the limit of memory, and the micro-batches that a
/// checkpoint states: where the bits depend on the grid, only they can give the bits of its steps again.
///
/// # Errors
/// [`Error::Mismatch`] for a checkpoint that states none that this program can read.
pub fn take_layout(config: &mut Config, to: &Reader) -> Result<()> {
    let stated = stored(to)?.config;
    config.parallel = read(to, &stated["parallel"])?;
    config.device = DeviceConfig {
        memory_limit: config.device.memory_limit,
        ..read(to, &stated["device"])?
    };
    config.training.micro_batches = read(to, &stated["training"]["micro_batches"])?;
    Ok(())
}

fn read<T: DeserializeOwned>(from: &Reader, value: &Value) -> Result<T> {
    serde_json::from_value(value.clone()).map_err(|error| {
        let (what, reason) = ("configuration", error.to_string());
        Error::mismatch(from.path(), Mismatch::Foreign { what, reason })
    })
}

/// The first setting by which a configuration leaves a layout on which the bits depend.
///
/// # Errors
/// [`Error::Setting`] for values that JSON cannot hold.
pub fn other_layout(layout: &Config, config: &Config) -> Result<Option<Disagreement>> {
    let [needed, found] = [layout.parallel.grid, config.parallel.grid];
    if needed != found {
        return Ok(Some(Disagreement::new("parallel.grid", found, needed)));
    }
    let mut differences = differences(&plain(layout)?, &plain(config)?).into_iter();
    let other = differences.find(|(key, ..)| {
        let is_layout = is_in(key, &FREE_TABLES) || key == "training.micro_batches";
        is_layout && !NEVER_DECIDE.contains(&key.as_str())
    });
    Ok(other.map(|(key, needed, found)| Disagreement::new(key, found, needed)))
}

fn is_in(key: &str, tables: &[&str]) -> bool {
    key.split_once('.')
        .is_some_and(|(table, _)| tables.contains(&table))
}

fn plain(value: &impl Serialize) -> Result<Value> {
    serde_json::to_value(value)
        .map_err(|error| Error::setting("checkpoint", error, "values that JSON can hold"))
}

/// What the later checkpoint of an audit states that does not follow from the earlier one: settings that decide numbers,
/// model, tokenizer, data, optimiser, and a step that the settings allow.
///
/// A key that both checkpoints lack, as those of an earlier release do, is not compared.
///
/// # Errors
/// [`Error::Mismatch`] for a checkpoint without the record of a trainer; [`Error::Setting`] for values that JSON cannot hold.
pub fn disagreements(run: &Run, from: &Reader, to: &Reader) -> Result<Vec<Disagreement>> {
    let needed = run.with_stored_reference()?.attached()?;
    let (before, found) = (stored(from)?, stored(to)?);
    let settings = differences(&needed.config, &found.config)
        .into_iter()
        .filter(|(key, _, found)| {
            let is_idle = is_in(key, &FREE_TABLES) || IDLE_KEYS.contains(&key.as_str());
            let both_lack_it = found.is_null() && value_of(&before.config, key).is_null();
            !(is_idle || both_lack_it)
        });
    let sections = to.sections();
    let models = [&needed.model, &sections.model].map(|model| json!({ "sections.model": model }));
    let model = differences(&models[0], &models[1]);
    let mut all: Vec<_> = settings
        .chain(model)
        .map(|(key, needed, found)| Disagreement::new(key, found, needed))
        .collect();
    let last = run.config.training.steps;
    if to.step() > last {
        let needed = format!("at most {last}, the configured number");
        all.push(Disagreement::new("step", to.step(), needed));
    }
    if [&found.tokenizer, &sections.tokenizer]
        .iter()
        .any(|found| **found != needed.tokenizer)
    {
        all.push(Disagreement::new(
            "tokenizer",
            "another one",
            "the one of this data and configuration",
        ));
    }
    let text = |data: Option<String>| data.unwrap_or_else(|| "none".into());
    if found.data != needed.data {
        all.push(Disagreement::new(
            "data",
            text(found.data),
            text(needed.data),
        ));
    }
    let optimiser = run.config.training.optimiser().name().to_owned();
    let is_unnamed = found.optimiser.is_none() && before.optimiser.is_none();
    if !is_unnamed && found.optimiser.as_ref() != Some(&optimiser) {
        all.push(Disagreement::new(
            "optimiser",
            text(found.optimiser),
            optimiser,
        ));
    }
    let adapts = run.config.training.precision == Precision::F16;
    if found.loss_scale.adapts() != adapts {
        all.push(Disagreement::new("loss_scale.adapts", !adapts, adapts));
    }
    Ok(all)
}

// The value of a key, as in `training.steps`; null if there is none.
fn value_of<'a>(config: &'a Value, key: &str) -> &'a Value {
    match key.split_once('.') {
        Some((table, key)) => &config[table][key],
        None => &config[key],
    }
}

/// Executes the steps up to `steps` again on this rank, from the checkpoint from which `run` resumes, and writes one
/// checkpoint into the run's folder: no records, no validation. Returns its path, or nothing if a rank was asked to stop.
///
/// # Errors
/// As [`run`](fn@super::run).
pub fn replay(
    world: &World,
    device: &Device,
    run: &Run,
    steps: u64,
    observer: &dyn Observer,
    stop: &Stop,
) -> Result<Option<PathBuf>> {
    let run = &run.with_stored_reference()?;
    let mut trainer = begin(world, device, run)?;
    if world.rank() == 0 {
        let started = run.started(trainer.next_step(), steps, &trainer);
        observer.started(&started);
    }
    let mut watched = Watched {
        run,
        observer,
        stop,
    };
    trainer.fit(&*run.data, steps, &mut watched)?;
    if trainer.next_step() < steps {
        return Ok(None);
    }
    world.beat(&format!("checkpoint of step {steps}"));
    let dir = run.dir.join("checkpoints");
    let saved = trainer.save_with(&dir, Retention::newest(1), &run.attached()?);
    saved.map(Some)
}

struct Watched<'a> {
    run: &'a Run,
    observer: &'a dyn Observer,
    stop: &'a Stop,
}

impl Callback for Watched<'_> {
    fn before_step(&mut self, trainer: &mut Trainer) -> Result<()> {
        let step = trainer.next_step() + 1;
        trainer.context().world().beat(&format!("step {step}"));
        Ok(())
    }

    fn wants_stop(&mut self) -> bool {
        self.stop.asked()
    }

    fn after_step(&mut self, trainer: &mut Trainer, done: &StepDone) -> Result<ControlFlow<()>> {
        if trainer.context().world().rank() == 0 {
            self.observer.step(&self.run.record(trainer, done));
        }
        Ok(ControlFlow::Continue(()))
    }
}
