//! Parameters and optimiser state to checkpoints and back.

use super::{Trainer, scale::LossScale};
use crate::{
    Config, Error, Result,
    checkpoint::{self, Piece, Reader, ShardRecord, Writer, write_shard},
    data::Tokenizer,
};
use grid::{Axis, IndexBox, Layout};
use parallel::{Context, Parameter, data::Part};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tensor::DType;

/// What a checkpoint holds besides tensors.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sections {
    /// The whole configuration of the run that wrote it.
    pub config: Config,
    /// How text becomes tokens.
    pub tokenizer: Tokenizer,
    /// The optimiser's updates so far.
    pub(crate) num_updates: u64,
    pub(crate) loss_scale: LossScale,
}

/// The parts that are stored, each under a prefix of its own.
fn parts(trainer: &Trainer) -> Vec<(String, Part)> {
    let states = (0..trainer.config.training.num_states())
        .map(|index| (format!("state{index}/"), Part::State(index)));
    [("weights/".to_owned(), Part::Weights)]
        .into_iter()
        .chain(states)
        .collect()
}

struct Owned {
    name: String,
    global_shape: Vec<usize>,
    layout: Layout,
    index: IndexBox,
    bytes: Vec<u8>,
}

/// Writes a checkpoint of `step` steps into `dir`. Collective: every rank writes what it alone, or it first, holds.
///
/// # Errors
/// [`Error::Checkpoint`] on every rank when one of them cannot write; nothing that was whole before is touched.
pub fn save(
    trainer: &Trainer,
    tokenizer: &Tokenizer,
    dir: &Path,
    step: u64,
    keep: usize,
) -> Result<PathBuf> {
    let owned = collect(trainer)?;
    let world = trainer.context.world();
    let everyone = world.everyone();
    let writer = (world.rank() == 0).then(|| Writer::begin(dir, step));
    let begun = writer
        .as_ref()
        .map_or(Ok(String::new()), |writer| match writer {
            Ok(writer) => Ok(writer.dir().display().to_string()),
            Err(error) => Err(error.to_string()),
        });
    let writing = PathBuf::from(shared(&trainer.context, begun)?);
    let dtype = trainer.dtype().accumulator();
    let pieces: Vec<Piece<'_>> = owned.iter().map(|owned| owned.piece(dtype)).collect();
    let record = match pieces.is_empty() {
        true => Ok(String::new()),
        false => write_shard(&writing, world.rank(), &pieces)
            .map_err(|error| error.to_string())
            .and_then(encode),
    };
    let records = gathered(&trainer.context, record)?;
    let committed = writer.map_or(Ok(String::new()), |writer| {
        let done = writer.and_then(|writer| writer.commit(records, sections(trainer, tokenizer)));
        done.map(|path| path.display().to_string())
            .map_err(|error| error.to_string())
    });
    let path = PathBuf::from(shared(&trainer.context, committed)?);
    if world.rank() == 0 {
        checkpoint::prune(dir, keep.max(1))?;
    }
    everyone.barrier()?;
    Ok(path)
}

/// Reads the trainer's weights and, if `with_state`, the optimiser's state and the counts that go with them.
///
/// # Errors
/// [`Error::Checkpoint`] when a tensor is missing, of another shape, or damaged.
pub fn load(trainer: &mut Trainer, reader: &Reader, with_state: bool) -> Result<()> {
    let parts: Vec<_> = parts(trainer)
        .into_iter()
        .filter(|(_, part)| with_state || *part == Part::Weights)
        .collect();
    for (prefix, part) in parts {
        trainer
            .model
            .parameters
            .write(part, |parameter| read(reader, &prefix, parameter))?;
    }
    if with_state {
        let stored = stored_sections(reader)?;
        trainer.num_updates = stored.num_updates;
        trainer.loss_scale = stored.loss_scale;
    }
    Ok(())
}

/// The numbers of this rank's shard of a parameter, as stored under a prefix.
fn read(reader: &Reader, prefix: &str, parameter: &Parameter) -> Result<Vec<f64>> {
    let name = format!("{prefix}{}", parameter.name());
    let info = reader.info(&name)?;
    if info.global_shape != parameter.global_shape() {
        return Err(Error::Config(format!(
            "checkpoint {}: {name} has shape {:?}, the model needs {:?}",
            reader.path().display(),
            info.global_shape,
            parameter.global_shape()
        )));
    }
    Ok(reader.read_f64(&name, parameter.index())?)
}

/// The weights of this rank's shard of a parameter.
pub(crate) fn read_weights(reader: &Reader, parameter: &Parameter) -> Result<Vec<f64>> {
    read(reader, "weights/", parameter)
}

/// What a checkpoint holds besides tensors.
///
/// # Errors
/// [`Error::Config`] when it was written by another program.
pub(crate) fn stored_sections(reader: &Reader) -> Result<Sections> {
    let value = reader.sections().trainer.clone();
    serde_json::from_value(value).map_err(|error| {
        Error::Config(format!(
            "checkpoint {}: its trainer section does not fit: {error}",
            reader.path().display()
        ))
    })
}

fn sections(trainer: &Trainer, tokenizer: &Tokenizer) -> checkpoint::Sections {
    let own = Sections {
        config: trainer.config.clone(),
        tokenizer: tokenizer.clone(),
        num_updates: trainer.num_updates,
        loss_scale: trainer.loss_scale,
    };
    let json =
        |value: serde_json::Result<serde_json::Value>| value.expect("plain values become JSON");
    checkpoint::Sections {
        model: json(serde_json::to_value(&trainer.config.model)),
        trainer: json(serde_json::to_value(&own)),
        tokenizer: json(serde_json::to_value(tokenizer)),
        grid: json(serde_json::to_value(trainer.context.grid())),
    }
}

fn collect(trainer: &Trainer) -> Result<Vec<Owned>> {
    let dtype = trainer.dtype().accumulator();
    let mut owned = Vec::new();
    for (prefix, part) in parts(trainer) {
        trainer
            .model
            .parameters
            .read::<Error>(part, |parameter, numbers| {
                if owns(trainer, parameter) {
                    owned.push(Owned {
                        name: format!("{prefix}{}", parameter.name()),
                        global_shape: parameter.global_shape().to_vec(),
                        layout: parameter.layout().clone(),
                        index: parameter.index().clone(),
                        bytes: bytes(dtype, &numbers),
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

// Of the ranks that hold the same shard the first one writes it; of two stages that share a table, the first.
fn owns(trainer: &Trainer, parameter: &Parameter) -> bool {
    let context = &trainer.context;
    let first_copy = trainer.model.parameters.is_first_copy(parameter);
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

// What rank 0 has, on every rank; its failure is everybody's.
fn shared(context: &Context, own: std::result::Result<String, String>) -> Result<String> {
    Ok(agreed(context, own)?.swap_remove(0))
}

fn gathered(
    context: &Context,
    own: std::result::Result<String, String>,
) -> Result<Vec<ShardRecord>> {
    let all = agreed(context, own)?;
    let records = all
        .iter()
        .filter(|text| !text.is_empty())
        .map(|text| serde_json::from_str(text));
    records
        .collect::<serde_json::Result<_>>()
        .map_err(|error| Error::Config(format!("checkpoint record: {error}")))
}

// The texts of all ranks, or the first failure among them.
fn agreed(context: &Context, own: std::result::Result<String, String>) -> Result<Vec<String>> {
    let message = match &own {
        Ok(text) => format!("+{text}"),
        Err(error) => format!("-{error}"),
    };
    let all = context.world().everyone().all_gather(message.as_bytes())?;
    all.into_iter()
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .map(|text| match text.strip_prefix('+') {
            Some(text) => Ok(text.to_owned()),
            None => Err(Error::Config(text[1..].to_owned())),
        })
        .collect()
}
