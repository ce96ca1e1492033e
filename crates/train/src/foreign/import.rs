//! A checkpoint of another program's model.

use super::ForeignModel;
use crate::{
    Config, Error, Result,
    checkpoint::{
        Sections, TensorInfo,
        foreign::{self, Imported},
    },
    data::Tokenizer,
    trainer::first_stored,
};
use grid::Grid;
use nn::Builder;
use parallel::work::dry_context;
use std::path::{Path, PathBuf};

/// Writes a folder's weights as the checkpoint of step 0 of a run, and returns its path.
///
/// The checkpoint holds weights alone, in the type in which a run of this configuration keeps them.
///
/// # Errors
/// [`Error::Checkpoint`] if the folder cannot be read or the checkpoint not be written; [`Error::Setting`] for a
/// configuration that JSON cannot hold.
pub fn import(
    foreign: &ForeignModel,
    config: &Config,
    tokenizer: &Tokenizer,
    checkpoints_dir: &Path,
) -> Result<PathBuf> {
    let builder = Builder::new(&dry_context()?);
    config.build(&builder)?;
    let dtype = config.training.precision.dtype().accumulator();
    let parameters = builder.parameters().into_iter();
    let tensors = parameters.map(|parameter| {
        Ok(Imported {
            name: format!("weights/{}", parameter.name()),
            info: TensorInfo {
                dtype,
                global_shape: parameter.global_shape().to_vec(),
                layout: parameter.layout().clone(),
            },
            view: foreign.place(parameter.name())?.view.clone(),
        })
    });
    let tensors = tensors.collect::<Result<Vec<_>>>()?;
    let refuse =
        |error: serde_json::Error| Error::setting("checkpoint", error, "values that JSON can hold");
    let tokenizer = serde_json::to_value(tokenizer).map_err(refuse)?;
    let sections = Sections {
        model: serde_json::to_value(&config.model).map_err(refuse)?,
        trainer: serde_json::to_value(first_stored(config, &tokenizer)?).map_err(refuse)?,
        tokenizer,
        grid: serde_json::to_value(Grid::serial()).map_err(refuse)?,
        ..Sections::default()
    };
    Ok(foreign::import(
        &foreign.tensors,
        checkpoints_dir,
        &tensors,
        sections,
    )?)
}
