//! `fascicle checkpoint import`: a model of another program, proved before it is kept.

use super::converted::{Converted, alone, sizes};
use crate::{
    Registry,
    failure::{Failure, Outcome},
    initial, output, sets,
};
use clap::Args;
use std::path::PathBuf;
use train::{
    Config, ModelConfig,
    checkpoint::{Error, Reader},
    foreign::{ForeignModel, import, prove},
};

/// Arguments of `fascicle checkpoint import`.
#[derive(Args, Debug)]
pub(crate) struct Import {
    /// A folder with config.json and safetensors files, as the library transformers writes it, or a checkpoint or run of Megatron-LM
    dir: PathBuf,
    /// Run directory for the checkpoint; it holds none yet
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// A folder with adapter_config.json and adapter_model.safetensors, as the library PEFT writes it: the checkpoint holds its
    /// adapters beside the model
    #[arg(long, value_name = "DIR")]
    adapter: Option<PathBuf>,
    /// Any key of the configuration that the folder leaves open, as in model.context=2048 or model.pad_vocabulary_to=64; may
    /// be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Do not compare outputs: for a model that does not fit this machine's memory
    #[arg(long)]
    unproved: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Import {
    pub(super) fn run(&self, registry: &Registry) -> Outcome {
        let families = &registry.families;
        let checkpoints = self.out.join("checkpoints");
        match Reader::open(&checkpoints) {
            Err(Error::Missing { .. } | Error::NoCheckpoint { .. }) => {}
            Ok(_) => {
                return Err(Failure::usage(format!(
                    "--out {}: holds a run already, needs another name",
                    self.out.display()
                )));
            }
            Err(error) => return Err(train::Error::from(error).into()),
        }
        let applied =
            |model: ModelConfig| sets::applied(Config::new(model), &self.settings, families);
        let foreign = ForeignModel::open(&self.dir, families, |model| {
            Ok::<_, Failure>(applied(model)?.model)
        })?;
        let foreign = match &self.adapter {
            Some(adapter) => foreign.adapted(adapter)?,
            None => foreign,
        };
        let mut config = Config::new(foreign.model.clone());
        config.training.precision = foreign.precision();
        config.tuning = foreign.tuning.clone();
        let mut config = sets::applied(config, &self.settings, families)?;
        let tokenizer = initial::tokenizer(&foreign, &mut config)?;
        config.check()?;
        let proof = match self.unproved {
            true => None,
            false => {
                let folder = foreign.clone();
                Some(alone(registry, move |ranks| {
                    prove(ranks, &folder.model, &folder, &folder)
                })?)
            }
        };
        if config.tuning.adapter_rank > 0 {
            let keys = toml::to_string(&config.tuning).map_err(Failure::run)?;
            output::note(&format!(
                "adapters, which `train --init-from` trains further with this in its configuration:\n[tuning]\n{}",
                keys.trim_end()
            ));
        }
        let path = import(&foreign, &config, &tokenizer, &checkpoints)?;
        let (bytes, parameters) = sizes(&Reader::open(&path).map_err(train::Error::from)?)?;
        let converted = Converted {
            path,
            model: config.model.describe(),
            parameters,
            bytes,
            proof,
        };
        converted.print(self.json)
    }
}
