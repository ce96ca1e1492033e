//! `fascicle checkpoint`: inspect, verify, digest, compare, audit, recover, reshard, import or export checkpoints, and copy them to and
//! from stores.

mod audit;
mod converted;
mod digest;
mod export;
mod import;
mod remote;

use crate::{
    Registry,
    failure::{Failure, Outcome},
    grids, launcher,
    numbers::{counted, grouped},
    output, recovery,
};
use clap::Subcommand;
use grid::{Degrees, Grid};
use serde::Serialize;
use std::path::{Path, PathBuf};
use train::{
    Families,
    checkpoint::{Reader, inspect, reshard},
    generate::configured,
    placement::stages,
};

/// Operations on checkpoints. Each takes a checkpoint, or a run directory, which stands for its newest
/// checkpoint.
#[derive(Debug, Subcommand)]
pub(crate) enum Checkpoint {
    /// List the tensors of a checkpoint and how they are cut
    Inspect {
        /// A checkpoint or a run directory
        dir: PathBuf,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Read every byte, and compare it with the stored checksums
    Verify {
        /// A checkpoint or a run directory
        dir: PathBuf,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print one SHA-256 for the state in a checkpoint, whatever grid wrote it
    ///
    /// Covers every tensor (weights and optimiser state: name, element type, global shape and elements), the step, the
    /// number of updates and the loss scale with its count of good steps. Does not cover the grid, the configuration, the
    /// tokenizer, paths or times. Reads every tensor, holds about 16 MiB at a time, and does not compare the stored
    /// checksums, which `verify` does.
    Digest {
        /// A checkpoint or a run directory
        dir: PathBuf,
        /// Also list the digest of each number and tensor
        #[arg(long)]
        tensors: bool,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show where the states in two checkpoints differ, whatever grids wrote them
    ///
    /// Compares bit for bit what `digest` covers. Exits with status 0 if all of it is equal, and with status 1 and a table
    /// otherwise: for each tensor that differs the number of differing elements, the first of them with its values and
    /// the shard files that hold them, and the largest absolute difference. Holds about 32 MiB at a time.
    Diff {
        /// A checkpoint or a run directory
        a: PathBuf,
        /// The checkpoint or run directory to compare it with
        b: PathBuf,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Execute the steps between two checkpoints again, on any grid, and confirm or refute the second
    ///
    /// Resumes from A with its configuration, trains to B's step in a temporary folder, and compares bit for bit what
    /// `digest` covers. B must also state A's model, tokenizer, data and every setting that decides numbers. If the run was
    /// resumed with other settings between A and B, pass the flags with which it was resumed. With
    /// training.reproducible = "grid" any grid will do, and the default is one rank; otherwise the audit computes on B's
    /// grid. Exits with status 0 and the digest if B is confirmed, and with status 1 and the differences if it is refuted.
    Audit(Box<audit::Audit>),
    /// Copy the newest local checkpoint of a run from its nodes into its folder
    ///
    /// Every byte is compared with the checksums that were written, and a damaged file is taken from the other node that has it.
    /// A resumed run does this first; alone it serves before nodes are given back. Start it on the nodes of the run, one process
    /// or more on each: srun --ntasks-per-node=1 fascicle checkpoint recover RUN
    Recover {
        /// A run directory
        run: PathBuf,
    },
    /// Rewrite a checkpoint as another grid would have written it
    Reshard {
        /// A checkpoint or a run directory
        dir: PathBuf,
        /// Ranks along each axis
        #[arg(long, value_name = "AXIS=N,...", value_parser = grids::named)]
        grid: Degrees,
        /// Folder for the new checkpoint
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a checkpoint of another program's model, once its outputs are proved
    ///
    /// Reads config.json and safetensors files as the library transformers writes them: model_type gpt2, llama, mistral,
    /// qwen2, qwen3, gemma, gemma2, gemma3_text or gpt_neox; and checkpoints of Megatron-LM in its format torch_dist. Before anything
    /// is written, the output of every segment of the model is compared with one that is computed from the folder's own tensors
    /// in f64. A setting, tensor or shape that the model cannot follow is refused by name. Memory: 8 bytes a parameter.
    Import(import::Import),
    /// Write the full weights to one safetensors file, or to a folder that the library transformers reads
    Export(export::Export),
    /// Copy a checkpoint to a store, such as s3://bucket/prefix
    ///
    /// Every byte is compared with the stored checksums on its way. The checkpoint appears in the store complete or not at all, and
    /// one that is there already is not copied again. Credentials come from the environment: AWS_*, GOOGLE_*, AZURE_*.
    Push(remote::Push),
    /// Copy a checkpoint from a store into a folder
    ///
    /// Every byte is compared with the stored checksums. The folder has the checkpoint complete or not at all.
    Pull(remote::Pull),
    /// List the complete checkpoints in a store
    List(remote::List),
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
    pub(crate) fn run(&self, registry: &Registry) -> Outcome {
        if !matches!(self, Checkpoint::Audit(_) | Checkpoint::Recover { .. }) {
            launcher::refuse_many("checkpoint")?;
        }
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
            Checkpoint::Digest { dir, tensors, json } => {
                digest::print(&open(dir)?, *tensors, *json)
            }
            Checkpoint::Audit(audit) => audit.run(registry),
            Checkpoint::Diff { a, b, json } => digest::compare(&open(a)?, &open(b)?, *json),
            Checkpoint::Recover { run } => {
                recovery::recover(run)?;
                output::path(open(run)?.path())
            }
            Checkpoint::Reshard {
                dir,
                grid,
                out,
                json,
            } => recut(&open(dir)?, &registry.families, *grid, out, *json),
            Checkpoint::Import(arguments) => arguments.run(registry),
            Checkpoint::Export(arguments) => arguments.run(registry),
            Checkpoint::Push(arguments) => arguments.run(),
            Checkpoint::Pull(arguments) => arguments.run(),
            Checkpoint::List(arguments) => arguments.run(),
        }
    }
}

/// Opens a checkpoint, or the newest one of a run directory.
pub(crate) fn open(dir: &Path) -> Outcome<Reader> {
    Ok(Reader::open(dir).map_err(train::Error::from)?)
}

fn recut(
    reader: &Reader,
    families: &Families,
    degrees: Degrees,
    out: &Path,
    json: bool,
) -> Outcome {
    let config = configured(reader, families).map_err(Failure::run)?;
    let grid =
        Grid::new(degrees, config.parallel.order.or_default()).map_err(train::Error::from)?;
    // Tensors are cut in the same way for every batch, so the batch makes no demand here.
    let demands = config.model.demands();
    demands.check(&degrees).map_err(train::Error::from)?;
    let stages = stages(&config, &degrees)?;
    // Names start with the part of the checkpoint: `weights/blocks.3.mlp.up.weight`.
    let stage = |name: &str| {
        let name = name.split_once('/').map_or(name, |(_, name)| name);
        stages.get(name).copied().unwrap_or(0)
    };
    let path = reshard(reader, out, &grid, &stage).map_err(train::Error::from)?;
    output::note(&format!(
        "step {} for grid {degrees}, {}",
        grouped(reader.step()),
        counted(grid.world_size(), "rank")
    ));
    match json {
        true => output::json(&Written {
            path: &path,
            step: reader.step(),
            grid: Some(degrees.to_string()),
            bytes: None,
        }),
        false => output::path(&path),
    }
}
