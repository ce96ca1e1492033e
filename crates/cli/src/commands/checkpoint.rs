//! `fascicle checkpoint`: look at, check, re-cut or export what a run has saved.

use crate::{
    failure::Outcome,
    numbers::{counted, grouped},
    output,
};
use clap::Subcommand;
use grid::{Degrees, Grid};
use hal::error::Bytes;
use nn::{
    Gpt, GptConfig,
    gpt::{Segment, segments},
};
use serde::Serialize;
use std::{
    ops::Range,
    path::{Path, PathBuf},
};
use train::{
    Config,
    checkpoint::{Reader, export_safetensors, inspect, reshard},
    generate::described,
};

/// What can be done with a checkpoint. Each takes a checkpoint, or the directory of a run, whose newest one is meant.
#[derive(Debug, Subcommand)]
pub(crate) enum Checkpoint {
    /// Tell which tensors it holds, and how they are cut
    Inspect {
        /// A checkpoint or a run directory
        dir: PathBuf,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Read every byte, and compare it with the sums written
    Verify {
        /// A checkpoint or a run directory
        dir: PathBuf,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Write it as another grid would have written it
    Reshard {
        /// A checkpoint or a run directory
        dir: PathBuf,
        /// Ranks along each axis
        #[arg(long, value_name = "AXIS=N,...")]
        grid: Degrees,
        /// Folder that gets the new checkpoint
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Write its weights, whole, to one safetensors file
    Export {
        /// A checkpoint or a run directory
        dir: PathBuf,
        /// The file
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// Write the optimiser's state too
        #[arg(long)]
        state: bool,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Serialize)]
struct Written<'a> {
    path: &'a Path,
    step: u64,
    grid: Option<String>,
    bytes: Option<u64>,
}

impl Checkpoint {
    /// Does it.
    pub(crate) fn run(&self) -> Outcome {
        match self {
            Checkpoint::Inspect { dir, json } => {
                let summary = inspect(&open(dir)?);
                if *json {
                    output::json(&summary)
                } else {
                    output::result(summary.to_string().trim_end())
                }
            }
            Checkpoint::Verify { dir, json } => {
                let report = open(dir)?.verify().map_err(train::Error::from)?;
                if *json {
                    output::json(&report)
                } else {
                    output::result(&report.to_string())
                }
            }
            Checkpoint::Reshard {
                dir,
                grid,
                out,
                json,
            } => recut(&open(dir)?, *grid, out, *json),
            Checkpoint::Export {
                dir,
                out,
                state,
                json,
            } => export(&open(dir)?, out, *state, *json),
        }
    }
}

/// Opens a checkpoint, or the newest of a run directory.
pub(super) fn open(dir: &Path) -> Outcome<Reader> {
    Ok(Reader::open(dir).map_err(train::Error::from)?)
}

fn recut(reader: &Reader, degrees: Degrees, out: &Path, json: bool) -> Outcome {
    let (config, _) = described(reader)?;
    let grid =
        Grid::new(degrees, config.parallel.order.or_default()).map_err(train::Error::from)?;
    let stages = Stages::of(&config, &degrees)?;
    let path =
        reshard(reader, out, &grid, &|name| stages.of_tensor(name)).map_err(train::Error::from)?;
    output::note(&format!(
        "step {} for grid {degrees}, {}",
        reader.step(),
        counted(grid.world_size(), "rank")
    ));
    match json {
        true => output::json(&Written {
            path: &path,
            step: reader.step(),
            grid: Some(degrees.to_string()),
            bytes: None,
        }),
        false => output::result(&path.display().to_string()),
    }
}

fn export(reader: &Reader, out: &Path, state: bool, json: bool) -> Outcome {
    let bytes = export_safetensors(reader, out, &|name| match state {
        true => Some(name.to_owned()),
        false => name.strip_prefix("weights/").map(str::to_owned),
    });
    let bytes = bytes.map_err(train::Error::from)?;
    let size = Bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
    output::note(&format!(
        "step {}: {size} ({} bytes)",
        reader.step(),
        grouped(bytes)
    ));
    match json {
        true => output::json(&Written {
            path: out,
            step: reader.step(),
            grid: None,
            bytes: Some(bytes),
        }),
        false => output::result(&out.display().to_string()),
    }
}

/// Which pipeline stage of a grid holds which tensor of a model.
struct Stages {
    segments: Vec<Segment>,
    cut: Vec<Vec<Range<usize>>>,
}

impl Stages {
    fn of(config: &Config, degrees: &Degrees) -> Outcome<Stages> {
        let chunks = config.parallel.schedule.num_chunks();
        // Tensors are cut whatever the batch: it asks for nothing here.
        config
            .model
            .demands(0, 1, chunks)
            .check(degrees)
            .map_err(train::Error::from)?;
        Stages::cut(&config.model, degrees.pipeline, chunks)
    }

    fn cut(model: &GptConfig, num_stages: usize, chunks: usize) -> Outcome<Stages> {
        let cut = Gpt::cut(model, num_stages, chunks).map_err(train::Error::from)?;
        Ok(Stages {
            segments: segments(model)
                .into_iter()
                .map(|(segment, _)| segment)
                .collect(),
            cut,
        })
    }

    // A tensor whose name says nothing lies on the first stage.
    fn of_tensor(&self, name: &str) -> usize {
        let wanted = segment(name);
        let index = self
            .segments
            .iter()
            .position(|segment| *segment == wanted)
            .unwrap_or(0);
        let holds = |ranges: &Vec<Range<usize>>| ranges.iter().any(|range| range.contains(&index));
        self.cut.iter().position(holds).unwrap_or(0)
    }
}

// The part of the model that a tensor belongs to, by its name: `weights/blocks.3.mlp.up.weight`.
fn segment(name: &str) -> Segment {
    let name = name.split_once('/').map_or(name, |(_, name)| name);
    let mut parts = name.split('.');
    let (first, number, layer) = (
        parts.next(),
        parts.next().and_then(|part| part.parse().ok()),
        parts.next(),
    );
    match (first, number, layer) {
        (Some("blocks"), Some(index), Some("mlp" | "norm2")) => Segment::Mlp(index),
        (Some("blocks"), Some(index), _) => Segment::Attention(index),
        (Some("final_norm" | "head"), ..) => Segment::Head,
        _ => Segment::Embedding,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_their_segment() {
        for (name, expected) in [
            ("weights/embedding.token", Segment::Embedding),
            ("state0/blocks.3.norm1.gain", Segment::Attention(3)),
            (
                "weights/blocks.3.attention.query.weight",
                Segment::Attention(3),
            ),
            ("state1/blocks.0.norm2.bias", Segment::Mlp(0)),
            ("weights/blocks.12.mlp.down.weight", Segment::Mlp(12)),
            ("weights/final_norm.gain", Segment::Head),
            ("weights/head.weight", Segment::Head),
        ] {
            assert_eq!(segment(name), expected, "{name}");
        }
    }

    #[test]
    fn every_stage_holds_tensors_and_their_order_is_that_of_the_layers() {
        let model = GptConfig {
            vocabulary: 256,
            ..GptConfig::default()
        };
        let stages = Stages::cut(&model, 4, 1).unwrap();
        let blocks = (0..4).flat_map(|index| {
            [
                format!("blocks.{index}.attention.key.weight"),
                format!("blocks.{index}.mlp.up.bias"),
            ]
        });
        let names = ["embedding.token".to_owned()]
            .into_iter()
            .chain(blocks)
            .chain(["final_norm.gain".into()]);
        let placed: Vec<usize> = names.map(|name| stages.of_tensor(&name)).collect();
        assert!(
            placed.is_sorted() && (0..4).all(|stage| placed.contains(&stage)),
            "{placed:?}"
        );
    }
}
