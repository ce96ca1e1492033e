//! `fascicle checkpoint push`, `pull` and `list`: checkpoints in stores.

use crate::{
    failure::Outcome,
    numbers::{duration, grouped},
    output,
};
use clap::Args;
use hal::error::Bytes;
use serde::Serialize;
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use train::{
    checkpoint::{Limit, pull},
    store,
};

/// Arguments of `fascicle checkpoint push`.
#[derive(Args, Debug)]
pub(crate) struct Push {
    /// A checkpoint or a run directory
    dir: PathBuf,
    /// The store, as in s3://bucket/prefix
    url: String,
    #[command(flatten)]
    time: Time,
}

/// Arguments of `fascicle checkpoint pull`.
#[derive(Args, Debug)]
pub(crate) struct Pull {
    /// The store, as in s3://bucket/prefix
    url: String,
    /// Folder for the checkpoint
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The step of the checkpoint; defaults to the newest
    #[arg(long, value_name = "N")]
    step: Option<u64>,
    #[command(flatten)]
    time: Time,
}

/// Arguments of `fascicle checkpoint list`.
#[derive(Args, Debug)]
pub(crate) struct List {
    /// The store, as in s3://bucket/prefix
    url: String,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    time: Time,
}

#[derive(Args, Debug)]
struct Time {
    /// The most seconds that this may take
    #[arg(long = "timeout", value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..=604_800))]
    seconds: u64,
}

impl Time {
    fn limit(&self) -> Limit {
        Limit::after(Duration::from_secs(self.seconds))
    }
}

#[derive(Serialize)]
struct Stored {
    step: u64,
    files: usize,
    bytes: u64,
    validation_loss: Option<f64>,
}

impl Push {
    /// Copies it.
    pub(crate) fn run(&self) -> Outcome {
        // Before anything is read: the URL may be wrong.
        let store = store::open(&self.url)?;
        let reader = super::open(&self.dir)?;
        let begun = Instant::now();
        let bytes = store.push(reader.path(), &self.time.limit());
        let bytes = bytes.map_err(train::Error::from)?;
        let step = grouped(reader.step());
        output::note(&match bytes {
            0 => format!("the store has step {step} already"),
            bytes => format!(
                "step {step}, {} in {}",
                size(bytes),
                duration(begun.elapsed())
            ),
        });
        output::result(&format!("{}/step-{:08}", store.url(), reader.step()))
    }
}

impl Pull {
    /// Copies it.
    pub(crate) fn run(&self) -> Outcome {
        let store = store::open(&self.url)?;
        let begun = Instant::now();
        let path = pull(&*store, self.step, &self.out, &self.time.limit());
        let path = path.map_err(train::Error::from)?;
        let took = duration(begun.elapsed());
        output::note(&format!(
            "from {} in {took}, each byte with the CRC-32 written",
            store.url()
        ));
        output::path(Path::new(&path))
    }
}

impl List {
    /// Prints them.
    pub(crate) fn run(&self) -> Outcome {
        let (store, limit) = (store::open(&self.url)?, self.time.limit());
        let mut found = Vec::new();
        for step in store.steps(&limit).map_err(train::Error::from)? {
            let inventory = store.inventory(step, &limit).map_err(train::Error::from)?;
            found.push(Stored {
                step,
                files: inventory.num_files(),
                bytes: inventory.num_bytes(),
                validation_loss: inventory.validation_loss(),
            });
        }
        if self.json {
            return output::json(&found);
        }
        if found.is_empty() {
            output::note(&format!("{} holds no complete checkpoint", store.url()));
        }
        found.iter().try_for_each(|stored| {
            let loss = stored.validation_loss;
            let loss = loss.map_or_else(String::new, |loss| format!(", validation loss {loss:.4}"));
            let (step, files) = (stored.step, stored.files);
            output::result(&format!(
                "step-{step:08}  {files} files, {}{loss}",
                size(stored.bytes)
            ))
        })
    }
}

fn size(bytes: u64) -> Bytes {
    Bytes(usize::try_from(bytes).unwrap_or(usize::MAX))
}
