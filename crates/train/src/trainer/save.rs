//! Saves parameters and optimiser state to checkpoints, and loads them.

use super::{Trainer, disk_work, scale::LossScale};
use crate::{
    Error, Mismatch, Result,
    checkpoint::{self, Piece, PlainFile, Reader, ShardRecord, Writer, write_shard},
};
use bootstrap::World;
use grid::{Axis, IndexBox, Layout};
use parallel::{Parameter, data::Part};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use tensor::DType;

/// Number of checkpoints that [`Trainer::save`] keeps.
const KEPT: usize = 3;

/// What a program stores in a checkpoint beside the trainer's own data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attached {
    /// The model's configuration.
    pub model: Value,
    /// The whole configuration of the run.
    pub config: Value,
    /// How text becomes tokens.
    pub tokenizer: Value,
    /// [`Batches::fingerprint`](crate::batches::Batches::fingerprint) of the data.
    pub data: Option<String>,
}

/// The trainer's section of a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stored {
    #[serde(default)]
    pub(crate) config: Value,
    #[serde(default)]
    pub(crate) tokenizer: Value,
    #[serde(default)]
    pub(crate) data: Option<String>,
    /// The number of updates of the optimiser so far.
    num_updates: u64,
    loss_scale: LossScale,
    #[serde(default)]
    optimiser: Option<String>,
}

/// The parts that are stored, each under its own prefix.
fn parts(num_states: usize) -> Vec<(String, Part)> {
    let states = (0..num_states).map(|index| (format!("state{index}/"), Part::State(index)));
    let weights = [("weights/".to_owned(), Part::Weights)];
    weights.into_iter().chain(states).collect()
}

struct Owned {
    name: String,
    global_shape: Vec<usize>,
    layout: Layout,
    index: IndexBox,
    bytes: Vec<u8>,
    is_finite: bool,
}

impl Trainer {
    /// Writes a checkpoint of the steps done so far into `dir`, and keeps the three newest. Collective: every
    /// rank writes the shards that it alone, or it first, holds.
    ///
    /// # Errors
    /// [`Error::Peer`] on every rank if one of them cannot write, or holds a number that is not finite, with that rank and
    /// its reason; existing complete checkpoints are not touched. [`Error::Checkpoint`] on rank 0 if an old one cannot be
    /// removed; [`Error::Parallel`] from the exchange and the device.
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<PathBuf> {
        self.save_with(dir.as_ref(), KEPT, &Attached::default())
    }

    /// As [`save`](Trainer::save), but keeps the `keep` newest, and stores the program's attachments.
    ///
    /// # Errors
    /// As [`save`](Trainer::save).
    pub fn save_with(&self, dir: &Path, keep: usize, attached: &Attached) -> Result<PathBuf> {
        let owned = collect(self)?;
        let (world, step) = (self.context.world(), self.next_step);
        disk_work::agreed(world, finite(step, &owned))?;
        let is_first = world.rank() == 0;
        let mut writer = None;
        let mut begin = || {
            let begun = Writer::begin(dir, step).map_err(|error| error.to_string())?;
            Ok(writer.insert(begun).dir().display().to_string())
        };
        let begun = disk_work::all(world, || if is_first { begin() } else { nothing() })?;
        let (writing, rank) = (PathBuf::from(&begun[0]), world.rank());
        let dtype = self.dtype().accumulator();
        let pieces: Vec<Piece<'_>> = owned.iter().map(|owned| owned.piece(dtype)).collect();
        let records = disk_work::all(world, || match pieces.is_empty() {
            true => nothing(),
            false => write_shard(&writing, rank, &pieces)
                .map_err(|error| error.to_string())
                .and_then(encode),
        })?;
        let (records, sections) = (decode(&records)?, sections(self, attached));
        let paths = disk_work::all(world, || match writer {
            None => nothing(),
            Some(writer) => writer
                .commit(records, sections)
                .and_then(|path| checkpoint::prune(dir, keep.max(1)).map(|()| path))
                .map(|path| path.display().to_string())
                .map_err(|error| error.to_string()),
        })?;
        Ok(PathBuf::from(&paths[0]))
    }

    /// Loads the weights from a file of full tensors, such as an exported checkpoint. Each tensor has the name
    /// of a parameter, with or without the prefix `weights/`. `others` are additional names that the file may
    /// have; optimiser state in the file is ignored.
    ///
    /// # Errors
    /// [`Error::Mismatch`] for a parameter that the file lacks or holds in another shape, and a tensor that the model lacks;
    /// [`Error::Checkpoint`] for elements that are not floats, and if the file cannot be read.
    pub fn load_weights(&mut self, file: &PlainFile, others: &[&str]) -> Result<()> {
        let refuse = |mismatch| Err(Error::mismatch(file.path(), mismatch));
        let stored = |name: &str| match file.contains(name) {
            true => name.to_owned(),
            false => format!("weights/{name}"),
        };
        let mut needed = BTreeSet::new();
        for parameter in self.pipeline.declared() {
            let (name, shape) = (stored(parameter.name()), parameter.global_shape());
            match file.contains(&name) {
                false => {
                    let name = parameter.name().to_owned();
                    return refuse(Mismatch::Missing { name });
                }
                true if file.shape(&name)? != shape => {
                    return refuse(Mismatch::Shape {
                        found: file.shape(&name)?.to_vec(),
                        needed: shape.to_vec(),
                        name,
                    });
                }
                true => needed.insert(name),
            };
        }
        let is_other = |name: &str| others.contains(&name) || name.starts_with("state");
        let mut extra = file
            .names()
            .into_iter()
            .filter(|name| !needed.contains(name) && !is_other(name));
        if let Some(name) = extra.next() {
            let (name, others) = (name.to_owned(), extra.count());
            return refuse(Mismatch::Extra { name, others });
        }
        self.parameters().write(Part::Weights, |parameter| {
            let (name, shape) = (stored(parameter.name()), parameter.global_shape());
            Ok(file.read_f64(&name, shape, parameter.index())?)
        })
    }

    /// Resumes from a checkpoint, or from the newest one in a folder: weights, the optimiser's state, and the
    /// number of the next step. Any grid may have written it. Collective.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is missing or damaged; [`Error::Mismatch`] when its tensors are not those of this model
    /// and optimiser, with the first name that differs, and when another program wrote it.
    pub fn resume(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let reader = Reader::open(path)?;
        verify(self.context.world(), &reader)?;
        let stored = stored(&reader)?;
        let own = self.optimiser.name();
        if let Some(name) = stored.optimiser.as_deref().filter(|name| *name != own) {
            let mismatch = Mismatch::Optimiser {
                found: name.to_owned(),
                needed: own.to_owned(),
            };
            return Err(Error::mismatch(reader.path(), mismatch));
        }
        let parts = parts(self.optimiser.num_states());
        check_names(self.pipeline.declared(), &reader, &parts)?;
        for (prefix, part) in parts {
            self.parameters()
                .write(part, |parameter| read(&reader, &prefix, parameter))?;
        }
        self.num_updates = stored.num_updates;
        self.loss_scale = self.loss_scale.resumed(stored.loss_scale);
        self.next_step = reader.step();
        Ok(())
    }
}

/// Compares every byte of a checkpoint with its checksums, on rank 0, while the others wait as long as it takes. Collective.
///
/// # Errors
/// [`Error::Checkpoint`] on rank 0 for the first file that is damaged, with an earlier checkpoint that is not;
/// [`Error::Parallel`] if a rank does not answer.
pub fn verify(world: &World, reader: &Reader) -> Result<()> {
    let (is_first, mut verified) = (world.rank() == 0, Ok(()));
    disk_work::all(world, || {
        if is_first {
            verified = reader.verify().map(drop);
        }
        nothing()
    })?;
    Ok(verified?)
}

/// Checks that a checkpoint holds exactly the parts of these parameters, each with its shape.
///
/// # Errors
/// [`Error::Mismatch`] with the first name that only one side has, or the two shapes.
pub(crate) fn check_names(
    parameters: &[Parameter],
    reader: &Reader,
    parts: &[(String, Part)],
) -> Result<()> {
    let mut needed = BTreeSet::new();
    for (prefix, part) in parts {
        let kept = |parameter: &&Parameter| *part == Part::Weights || !parameter.is_frozen();
        for parameter in parameters.iter().filter(kept) {
            check_shape(reader, prefix, parameter)?;
            needed.insert(format!("{prefix}{}", parameter.name()));
        }
    }
    let is_ours = |name: &&str| {
        parts.iter().any(|(prefix, _)| name.starts_with(prefix)) || name.starts_with("state")
    };
    let whole = parts.len() > 1 || parts.iter().all(|(_, part)| *part != Part::Weights);
    let compared = |name: &&str| is_ours(name) && (whole || name.starts_with("weights/"));
    let extra: Vec<&str> = reader
        .names()
        .filter(compared)
        .filter(|name| !needed.contains(*name))
        .collect();
    match extra.first() {
        None => Ok(()),
        Some(first) => {
            let (name, others) = ((*first).to_owned(), extra.len() - 1);
            Err(Error::mismatch(
                reader.path(),
                Mismatch::Extra { name, others },
            ))
        }
    }
}

fn check_shape(reader: &Reader, prefix: &str, parameter: &Parameter) -> Result<()> {
    let name = format!("{prefix}{}", parameter.name());
    let Ok(info) = reader.info(&name) else {
        return Err(Error::mismatch(reader.path(), Mismatch::Missing { name }));
    };
    match info.global_shape == parameter.global_shape() {
        true => Ok(()),
        false => {
            let mismatch = Mismatch::Shape {
                found: info.global_shape.to_vec(),
                needed: parameter.global_shape().to_vec(),
                name,
            };
            Err(Error::mismatch(reader.path(), mismatch))
        }
    }
}

/// The values of this rank's shard of a parameter, as stored under a prefix.
fn read(reader: &Reader, prefix: &str, parameter: &Parameter) -> Result<Vec<f64>> {
    let (name, shape) = (
        format!("{prefix}{}", parameter.name()),
        parameter.global_shape(),
    );
    Ok(reader.read_f64(&name, shape, parameter.index())?)
}

/// The weights of this rank's shard of a parameter.
pub(crate) fn read_weights(reader: &Reader, parameter: &Parameter) -> Result<Vec<f64>> {
    read(reader, "weights/", parameter)
}

/// The contents of a checkpoint besides tensors.
///
/// # Errors
/// [`Error::Mismatch`] if another program wrote it.
pub(crate) fn stored(reader: &Reader) -> Result<Stored> {
    let value = reader.sections().trainer.clone();
    serde_json::from_value(value).map_err(|error| {
        let (what, reason) = ("record of a trainer", error.to_string());
        Error::mismatch(reader.path(), Mismatch::Foreign { what, reason })
    })
}

fn sections(trainer: &Trainer, attached: &Attached) -> checkpoint::Sections {
    let own = Stored {
        config: attached.config.clone(),
        tokenizer: attached.tokenizer.clone(),
        data: attached.data.clone(),
        num_updates: trainer.num_updates,
        loss_scale: trainer.loss_scale,
        optimiser: Some(trainer.optimiser.name().to_owned()),
    };
    let json = |value: serde_json::Result<Value>| value.expect("plain values become JSON");
    checkpoint::Sections {
        model: attached.model.clone(),
        trainer: json(serde_json::to_value(&own)),
        tokenizer: attached.tokenizer.clone(),
        grid: json(serde_json::to_value(trainer.context.grid())),
    }
}

fn collect(trainer: &Trainer) -> Result<Vec<Owned>> {
    let dtype = trainer.dtype().accumulator();
    let mut owned = Vec::new();
    for (prefix, part) in parts(trainer.optimiser.num_states()) {
        trainer
            .parameters()
            .read::<Error>(part, |parameter, numbers| {
                if owns(trainer, parameter) {
                    owned.push(Owned {
                        name: format!("{prefix}{}", parameter.name()),
                        global_shape: parameter.global_shape().to_vec(),
                        layout: parameter.layout().clone(),
                        index: parameter.index().clone(),
                        bytes: bytes(dtype, &numbers),
                        is_finite: numbers.iter().all(|number| number.is_finite()),
                    });
                }
                Ok(())
            })?;
    }
    Ok(owned)
}

impl Owned {
    fn piece(&self, dtype: DType) -> Piece<'_> {
        Piece {
            name: &self.name,
            dtype,
            global_shape: &self.global_shape,
            layout: &self.layout,
            index: self.index.clone(),
            bytes: &self.bytes,
        }
    }
}

// Among ranks that hold the same shard, the first one writes it; between two stages that share a table, the
// first stage.
fn owns(trainer: &Trainer, parameter: &Parameter) -> bool {
    let context = &trainer.context;
    let first_copy = trainer.parameters().is_first_copy(parameter);
    first_copy && context.index(Axis::Data) == 0 && parameter.counts_in_norm(context)
}

fn bytes(dtype: DType, numbers: &[f64]) -> Vec<u8> {
    match dtype {
        DType::F64 => numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect(),
        _ => numbers
            .iter()
            .flat_map(|number| (*number as f32).to_le_bytes())
            .collect(),
    }
}

fn encode(record: ShardRecord) -> std::result::Result<String, String> {
    serde_json::to_string(&record).map_err(|error| error.to_string())
}

fn decode(texts: &[String]) -> Result<Vec<ShardRecord>> {
    let records = texts
        .iter()
        .filter(|text| !text.is_empty())
        .map(|text| serde_json::from_str(text));
    records
        .collect::<serde_json::Result<_>>()
        .map_err(|error| Error::setting("checkpoint record", error, "the record of a shard"))
}

fn nothing() -> disk_work::Outcome {
    Ok(String::new())
}

// Weights that are not finite would take the place of good ones.
fn finite(step: u64, owned: &[Owned]) -> disk_work::Outcome {
    match owned.iter().find(|owned| !owned.is_finite) {
        None => nothing(),
        Some(Owned { name, .. }) => Err(format!(
            "checkpoint of step {step}: {name} holds a number that is not finite; it is not saved, and the earlier \
             checkpoints stay"
        )),
    }
}
