//! A checkpoint of another program's model.

use super::ForeignModel;
use crate::{
    Config, Result,
    checkpoint::{
        TensorInfo,
        foreign::{self, Imported},
    },
    data::Tokenizer,
    trainer::{Attached, first_sections},
};
use nn::Builder;
use parallel::work::dry_context;
use std::path::{Path, PathBuf};

/// Writes a folder's weights as the checkpoint of step 0 of a run, and returns its path.
///
/// The checkpoint holds weights alone, in the type in which a run of this configuration keeps them.
///
/// # Errors
/// [`Error::Checkpoint`](crate::Error::Checkpoint) if the folder cannot be read or the checkpoint not be written; [`Error::Setting`](crate::Error::Setting) for a
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
    let sections = first_sections(&Attached::of(config, Some(tokenizer))?);
    Ok(foreign::import(
        &foreign.tensors,
        checkpoints_dir,
        &tensors,
        sections,
    )?)
}
