//! Weights with which a run begins, instead of random ones.

use crate::{
    commands::checkpoint::open,
    failure::{Failure, Outcome},
    output,
};
use std::{path::Path, sync::Arc};
use train::{
    Config, Families, ModelConfig,
    checkpoint::{Error, Reader},
    data::{Tokenizer, TokenizerChoice},
    foreign::{ForeignModel, Merged},
    generate::{configured, described},
    trainer::Weights,
};

/// The weights with which a run begins.
pub(crate) struct Initial {
    /// The model that they are of.
    pub(crate) model: ModelConfig,
    /// Their tokenizer.
    pub(crate) tokenizer: TokenizerChoice,
}

impl Initial {
    /// Opens another program's folder, a checkpoint, or the newest one of a run directory.
    pub(crate) fn open(path: &Path, families: &Families) -> Outcome<Initial> {
        let path = std::path::absolute(path)
            .map_err(|error| Failure::usage(format!("--init-from: {error}")))?;
        if ForeignModel::is_one(&path) {
            let foreign = ForeignModel::open(&path, families, Ok::<_, Failure>)?;
            let mut config = Config::new(foreign.model.clone());
            tokenizer(&foreign, &mut config)?;
            return Ok(Initial {
                model: foreign.model,
                tokenizer: config.data.tokenizer,
            });
        }
        let reader = match Reader::open(&path) {
            Err(Error::NoCheckpoint { .. }) => {
                return Err(Failure::usage(format!(
                    "--init-from {}: found neither a checkpoint nor another program's model (config.json, or .metadata)",
                    path.display()
                )));
            }
            reader => reader.map_err(train::Error::from)?,
        };
        let (config, _) = described(&reader, families).map_err(Failure::run)?;
        Ok(Initial {
            model: config.model,
            tokenizer: TokenizerChoice::Checkpoint(path),
        })
    }
}

/// The weights of another program's folder, of a checkpoint or of the newest one of a run directory, for the model of this
/// configuration. What adapters of a checkpoint add is added to its weights, unless the configuration has adapters too.
pub(crate) fn weights(
    path: &Path,
    config: &Config,
    families: &Families,
) -> Outcome<Arc<dyn Weights>> {
    if ForeignModel::is_one(path) {
        let foreign =
            ForeignModel::open(path, families, |_| Ok::<_, Failure>(config.model.clone()))?;
        return Ok(Arc::new(foreign));
    }
    let reader = open(path)?;
    reader.verify().map_err(train::Error::from)?;
    let stored = configured(&reader, families).map_err(Failure::run)?;
    match stored.tuning.adapter_rank > 0 && config.tuning.adapter_rank == 0 {
        true => Ok(Arc::new(Merged::new(reader, &stored))),
        false => Ok(Arc::new(reader)),
    }
}

/// The tokenizer of a folder, or numbers where there is none that this program can read; sets the choice in the
/// configuration.
pub(crate) fn tokenizer(foreign: &ForeignModel, config: &mut Config) -> Outcome<Tokenizer> {
    let vocabulary = config.model.text().map_or(0, |text| text.vocabulary);
    if let Some(path) = foreign.tokenizer_file() {
        let path = std::path::absolute(&path)
            .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
        match TokenizerChoice::File(path.clone()).read() {
            Ok(tokenizer) if tokenizer.vocabulary_size() <= vocabulary => {
                config.data.tokenizer = TokenizerChoice::File(path);
                return Ok(tokenizer);
            }
            Ok(tokenizer) => {
                return Err(Failure::usage(format!(
                    "{}: found {} tokens, needs at most {vocabulary}, the model's vocabulary",
                    path.display(),
                    tokenizer.vocabulary_size()
                )));
            }
            Err(error) => output::note(&format!("{error}; so prompts are numbers of tokens")),
        }
    }
    config.data.tokenizer = TokenizerChoice::Ids(vocabulary);
    Ok(Tokenizer::ids(vocabulary))
}
