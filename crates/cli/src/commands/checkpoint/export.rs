//! `fascicle checkpoint export`: weights for other programs.

use super::{
    Written,
    converted::{Converted, Proved, alone, sizes},
    open,
};
use crate::{
    Registry,
    failure::{Failure, Outcome},
    files,
    numbers::grouped,
    output, overrides,
};
use clap::{Args, ValueEnum};
use hal::error::Bytes;
use std::{io::ErrorKind, path::PathBuf};
use train::{
    checkpoint::{Error, Reader, export_safetensors},
    config::Precision,
    foreign::{self, ExportOptions},
    generate::{configured, described},
};

/// Bytes of a file above which a folder has another.
const MOST_FILE_BYTES: u64 = 5_000_000_000;

/// How an export is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// One safetensors file.
    File,
    /// A folder of the library transformers.
    Transformers,
    /// A folder of the library PEFT, for the adapters alone.
    Peft,
}

/// Arguments of `fascicle checkpoint export`.
#[derive(Args, Debug)]
pub(crate) struct Export {
    /// A checkpoint or a run directory
    dir: PathBuf,
    /// Output file, or a new folder with --format transformers or peft
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
    /// How it is written: one file with this program's names; config.json, safetensors files and the tokenizer; or the adapters by
    /// themselves, with adapter_config.json
    #[arg(long, value_enum, default_value_t = Form::File)]
    format: Form,
    /// Type of the elements of a folder; by default that in which the model computes
    #[arg(long, value_parser = overrides::precisions(), conflicts_with = "state")]
    dtype: Option<Precision>,
    /// Do not compare the outputs of a folder with the checkpoint's: for a model that does not fit this machine's memory
    #[arg(long)]
    unproved: bool,
    /// Replace the output file if it exists
    #[arg(long)]
    overwrite: bool,
    /// Also write the optimiser's state
    #[arg(long)]
    state: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Export {
    pub(super) fn run(&self, registry: &Registry) -> Outcome {
        let refuse = |flag: &str, found: &str, needed: &str| {
            Err(Failure::usage(format!(
                "{flag}: found --format {found}, needs --format {needed}"
            )))
        };
        let of_file = [("--overwrite", self.overwrite), ("--state", self.state)];
        let of_folder = [
            ("--dtype", self.dtype.is_some()),
            ("--unproved", self.unproved),
        ];
        let given = |flags: [(&'static str, bool); 2]| flags.into_iter().find(|(_, given)| *given);
        match self.format {
            Form::Transformers | Form::Peft => {
                let name = if self.format == Form::Peft {
                    "peft"
                } else {
                    "transformers"
                };
                if let Some((flag, _)) = given(of_file) {
                    return refuse(flag, name, "file");
                }
                files::check_output("--out", &self.out)?;
                let reader = open(&self.dir)?;
                match self.format {
                    Form::Peft if self.unproved => refuse("--unproved", name, "transformers"),
                    Form::Peft => self.adapter(registry, &reader),
                    _ => self.folder(registry, &reader),
                }
            }
            Form::File => {
                if let Some((flag, _)) = given(of_folder) {
                    return refuse(flag, "file", "transformers");
                }
                files::check_output("--out", &self.out)?;
                self.file(&open(&self.dir)?)
            }
        }
    }

    fn file(&self, reader: &Reader) -> Outcome {
        let (out, json) = (&*self.out, self.json);
        let bytes = export_safetensors(reader, out, self.overwrite, &|name| match self.state {
            true => Some(name.to_owned()),
            false => name.strip_prefix("weights/").map(str::to_owned),
        });
        let bytes = bytes.map_err(|error| match error {
            Error::Exists { .. } => Failure::usage(format!(
                "--out {}: found a file of that name, needs another name, or --overwrite to replace it",
                out.display()
            )),
            Error::Io { source, .. } if source.kind() == ErrorKind::InvalidInput => {
                Failure::usage(format!("--out {}: {source}", out.display()))
            }
            other => train::Error::from(other).into(),
        })?;
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

    // As a folder for the library PEFT.
    fn adapter(&self, registry: &Registry, reader: &Reader) -> Outcome {
        let config = configured(reader, &registry.families).map_err(Failure::run)?;
        let precision = self.dtype.unwrap_or(config.training.precision);
        reader.verify().map_err(train::Error::from)?;
        let to = (&*self.out, precision);
        let files = foreign::export_adapter(reader, &config, &registry.families, to)?;
        let bytes = files.iter().map(|file| file.bytes).sum();
        output::note(&format!(
            "adapters of rank {}: {} bytes",
            config.tuning.adapter_rank,
            grouped(bytes)
        ));
        match self.json {
            true => output::json(&Written {
                path: &self.out,
                step: reader.step(),
                grid: None,
                bytes: Some(bytes),
            }),
            false => output::result(&self.out.display().to_string()),
        }
    }

    // As a folder for the library transformers.
    fn folder(&self, registry: &Registry, reader: &Reader) -> Outcome {
        let (out, proves) = (self.out.clone(), !self.unproved);
        let (config, tokenizer) = described(reader, &registry.families).map_err(Failure::run)?;
        let options = ExportOptions {
            precision: self.dtype.unwrap_or(config.training.precision),
            most_file_bytes: MOST_FILE_BYTES,
        };
        let (families, path, to) = (
            registry.families.clone(),
            reader.path().to_owned(),
            out.to_owned(),
        );
        let described = config.model.describe();
        let (files, proof) = alone(registry, move |ranks| {
            let reader = Reader::open(&path)?;
            reader.verify()?;
            let run = (&config, &tokenizer);
            foreign::export(ranks, &reader, run, &families, (&to, options, proves))
        })?;
        let converted = Converted {
            path: out,
            model: described,
            parameters: sizes(reader)?.1,
            bytes: files.iter().map(|file| file.bytes).sum(),
            proof: proof.map(Proved::from),
        };
        converted.print(self.json)
    }
}
