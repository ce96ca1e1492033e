//! `fascicle checkpoint export`: weights for other programs.

use super::{
    Written,
    converted::{Converted, alone, sizes},
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
        let (is_file, is_transformers) =
            (self.format == Form::File, self.format == Form::Transformers);
        let flags = [
            ("--overwrite", self.overwrite, is_file, "file"),
            ("--state", self.state, is_file, "file"),
            (
                "--dtype",
                self.dtype.is_some(),
                !is_file,
                "transformers or peft",
            ),
            ("--unproved", self.unproved, is_transformers, "transformers"),
        ];
        let misplaced = flags.iter().find(|(_, given, fits, _)| *given && !fits);
        if let Some((flag, _, _, needed)) = misplaced {
            let found = self.format.to_possible_value();
            let found = found.map_or_else(String::new, |value| value.get_name().to_owned());
            return Err(Failure::usage(format!(
                "{flag}: found --format {found}, needs --format {needed}"
            )));
        }
        files::check_output("--out", &self.out)?;
        let reader = open(&self.dir)?;
        match self.format {
            Form::File => self.file(&reader),
            Form::Transformers => self.folder(registry, reader),
            Form::Peft => self.adapter(registry, &reader),
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
            grouped(reader.step()),
            grouped(bytes)
        ));
        match json {
            true => output::json(&Written {
                path: out,
                step: reader.step(),
                grid: None,
                bytes: Some(bytes),
            }),
            false => output::path(out),
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
            false => output::path(&self.out),
        }
    }

    // As a folder for the library transformers.
    fn folder(&self, registry: &Registry, reader: Reader) -> Outcome {
        let (config, tokenizer) = described(&reader, &registry.families).map_err(Failure::run)?;
        let options = ExportOptions {
            precision: self.dtype.unwrap_or(config.training.precision),
            most_file_bytes: MOST_FILE_BYTES,
        };
        let (families, to, proves) = (registry.families.clone(), self.out.clone(), !self.unproved);
        let (model, (_, parameters)) = (config.model.describe(), sizes(&reader)?);
        let (files, proof) = alone(registry, move |ranks| {
            reader.verify()?;
            let run = (&config, &tokenizer);
            foreign::export(ranks, &reader, run, &families, (&to, options, proves))
        })?;
        let converted = Converted {
            path: self.out.clone(),
            model,
            parameters,
            bytes: files.iter().map(|file| file.bytes).sum(),
            proof,
        };
        converted.print(self.json)
    }
}
