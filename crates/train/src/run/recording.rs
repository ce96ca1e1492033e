//! A rank of a run, recorded, and run again without the others.

use super::{Resume, Run};
use crate::{
    Config, Error, Families, Result,
    batches::{Batches, Rows, ValidationSet},
    data::Tokenizer,
};
use bootstrap::{World, world::RankLocation};
use replay::{Tape, TapeWriter};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};
use tensor::Device;

/// A rank's place, as the file names it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Place {
    rank: usize,
    ranks: usize,
    node: usize,
    nodes: usize,
    local_rank: usize,
    local_ranks: usize,
}

/// What a recording says about its rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Header {
    place: Place,
    /// The vendor of its device.
    pub vendor: String,
    /// The configuration of the run.
    config: Value,
    /// The checkpoint from which the run was resumed.
    resumed: Option<PathBuf>,
    /// The sets of a validation.
    validation_sets: Vec<ValidationSet>,
    /// How text becomes tokens, for texts that the model writes.
    tokenizer: Option<Tokenizer>,
    /// The data.
    fingerprint: Option<String>,
}

impl Header {
    /// That of a tape.
    ///
    /// # Errors
    /// [`Error::Setting`] for a tape that no run of this version made.
    pub fn of(tape: &Tape) -> Result<Header> {
        serde_json::from_value(tape.header().clone())
            .map_err(|error| Error::setting("replay", error, "a recording of `fascicle train`"))
    }

    /// The configuration of the run.
    ///
    /// # Errors
    /// As [`Config::from_json`] and [`Config::check`]; [`Error::Setting`] for a rank that is not one of its grid.
    pub fn config(&self, families: &Families) -> Result<Config> {
        let config = Config::from_json(self.config.clone(), families)?;
        config.check()?;
        let Place {
            rank,
            ranks,
            node,
            nodes,
            local_rank,
            local_ranks,
        } = self.place;
        let is_one = rank < ranks && node < nodes && local_rank < local_ranks;
        let on_grid = config.grid()?.world_size();
        match is_one && ranks == on_grid {
            true => Ok(config),
            false => {
                let found = format!("rank {rank} of {ranks}, on node {node} of {nodes}");
                Err(Error::setting(
                    "replay",
                    found,
                    format!("one of {on_grid} ranks"),
                ))
            }
        }
    }

    /// Where the rank was.
    pub fn place(&self) -> RankLocation {
        RankLocation {
            rank: self.place.rank,
            size: self.place.ranks,
            node: self.place.node,
            num_nodes: self.place.nodes,
            local_rank: self.place.local_rank,
            local_size: self.place.local_ranks,
        }
    }
}

/// The world, the device and the run of a rank, which record what the rank receives: in `rank-N.recording` of the run's folder,
/// or in `rank-N.2.recording` and so on, so that no recording of an earlier attempt is lost.
///
/// # Errors
/// [`Error::Setting`] if the file cannot be written, and for data of pairs; [`Error::Parallel`] from the device.
pub fn record(world: &World, device: &Device, run: &Run) -> Result<(World, Device, Run)> {
    if run.data.preferences().is_some() {
        let needed =
            "an objective without a reference model, whose pass over the data no recording holds";
        return Err(Error::setting(
            "recording",
            "training.objective = \"dpo\"",
            needed,
        ));
    }
    let place = world.place();
    let number = |number: usize| match number {
        1 => run.dir.join(format!("rank-{}.recording", place.rank)),
        number => run
            .dir
            .join(format!("rank-{}.{number}.recording", place.rank)),
    };
    let mut files = (1..).map(number);
    let file = files
        .find(|file| !file.exists())
        .expect("numbers do not end");
    let header = Header {
        place: Place {
            rank: place.rank,
            ranks: place.size,
            node: place.node,
            nodes: place.num_nodes,
            local_rank: place.local_rank,
            local_ranks: place.local_size,
        },
        vendor: device.id().vendor.name().to_owned(),
        config: json(&run.config)?,
        resumed: run.resume.as_ref().map(|from| from.checkpoint.clone()),
        validation_sets: run.data.validation_sets(),
        tokenizer: run.tokenizer.clone(),
        fingerprint: run.data.fingerprint(),
    };
    let tape = TapeWriter::create(&file, &json(&header)?).map_err(fault)?;
    let tape = Arc::new(tape);
    let (world, hal) = replay::record(world, device.hal().clone(), &tape)?;
    let data = Recorded {
        rows: tape.open("rows").map_err(fault)?,
        data: run.data.clone(),
        tape,
    };
    let run = Run {
        data: Arc::new(data),
        ..run.clone()
    };
    Ok((world, Device::new(hal)?, run))
}

/// The world, the device and the run of a recorded rank, in a folder that exists. They end with an error where the rank leaves
/// its recording.
///
/// # Errors
/// As [`Header::config`]; [`Error::Parallel`] from the device, and for a recording that ends before its first step.
pub fn replay(
    device: &Device,
    header: &Header,
    tape: &Arc<Tape>,
    (config, dir): (Config, &Path),
) -> Result<(World, Device, Run)> {
    let place = header.place();
    let (world, hal) = replay::replay(place, device.hal().clone(), tape)?;
    let data = Replayed {
        rows: tape.channel("rows").map_err(fault)?,
        tape: tape.clone(),
        header: header.clone(),
    };
    let run = Run {
        config,
        data: Arc::new(data),
        num_tokens: None,
        tokenizer: header.tokenizer.clone(),
        dir: dir.to_owned(),
        resume: header.resumed.as_ref().map(|checkpoint| Resume {
            checkpoint: checkpoint.clone(),
            any_change: true,
        }),
        init: None,
        restart: false,
        trace_step: None,
        peak_flop_per_s: None,
    };
    Ok((world, Device::new(hal)?, run))
}

fn json(value: &impl Serialize) -> Result<Value> {
    serde_json::to_value(value)
        .map_err(|error| Error::setting("recording", error, "values that JSON can hold"))
}

fn fault(error: replay::Error) -> Error {
    Error::setting("recording", error, "the file of a recorded rank")
}

/// Data whose rows are recorded.
struct Recorded {
    data: Arc<dyn Batches>,
    tape: Arc<TapeWriter>,
    rows: u32,
}

impl Recorded {
    fn keep(&self, rows: Rows) -> Result<Rows> {
        let frame = json(&rows)?.to_string();
        self.tape
            .write(self.rows, &[frame.as_bytes()])
            .map_err(fault)?;
        Ok(rows)
    }
}

impl Batches for Recorded {
    fn training(&self, step: u64, rows: Range<usize>) -> Result<Rows> {
        self.keep(self.data.training(step, rows)?)
    }

    fn validation(&self, index: usize, rows: Range<usize>) -> Result<Rows> {
        self.keep(self.data.validation(index, rows)?)
    }

    fn num_validation_batches(&self) -> usize {
        self.data.num_validation_batches()
    }

    fn validation_sets(&self) -> Vec<ValidationSet> {
        self.data.validation_sets()
    }

    fn fingerprint(&self) -> Option<String> {
        self.data.fingerprint()
    }
}

/// The rows of a recording, in their order.
struct Replayed {
    tape: Arc<Tape>,
    rows: u32,
    header: Header,
}

impl Replayed {
    fn next(&self) -> Result<Rows> {
        let frame = self.tape.next(self.rows).map_err(fault)?;
        serde_json::from_slice(&frame)
            .map_err(|error| Error::setting("replay", error, "rows as they were recorded"))
    }
}

impl Batches for Replayed {
    fn training(&self, _step: u64, _rows: Range<usize>) -> Result<Rows> {
        self.next()
    }

    fn validation(&self, _index: usize, _rows: Range<usize>) -> Result<Rows> {
        self.next()
    }

    fn num_validation_batches(&self) -> usize {
        let sets = self.header.validation_sets.iter();
        sets.map(|set| set.batches.len()).sum()
    }

    fn validation_sets(&self) -> Vec<ValidationSet> {
        self.header.validation_sets.clone()
    }

    fn fingerprint(&self) -> Option<String> {
        self.header.fingerprint.clone()
    }
}
