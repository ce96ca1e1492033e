//! How a family is stored by another program.

use super::Settings;
use crate::{
    ModelConfig, Result,
    checkpoint::foreign::{PlainFolder, View},
};
use serde_json::{Map, Value};

/// Where a parameter lies in another program's tensors.
#[derive(Clone, Debug)]
pub struct Place {
    /// The parameter.
    pub parameter: String,
    /// Its place.
    pub view: View,
}

/// A tensor that holds no parameter of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spare {
    /// No weights, such as a mask.
    Constant,
    /// The elements of this other tensor once more.
    CopyOf(String),
}

/// How a family is stored in folders of the library transformers.
///
/// [`places`](Format::places) serves both directions. [`outputs`](Format::outputs) is the independent judge: it must share
/// no code with the family's model, and read nothing but the settings and the tensors.
pub trait Format: Send + Sync {
    /// The values of `model_type` that it reads; it writes one of them.
    fn model_types(&self) -> &[&'static str];

    /// The model that the settings describe. Reads every setting that decides its outputs.
    ///
    /// # Errors
    /// That of [`Settings`] for the first setting that the family cannot follow.
    fn model(&self, settings: &Settings) -> Result<ModelConfig>;

    /// The settings of a model.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) for a key that no setting can state.
    fn settings(&self, model: &ModelConfig) -> Result<Map<String, Value>>;

    /// Keys of `[model]` that no setting states, because they do not change the outputs for one document.
    fn unstated(&self) -> &'static [&'static str] {
        &[]
    }

    /// Where each parameter of the model lies, in the order of the file. `contains` says which tensors are there; it is false
    /// for all of them before an export.
    ///
    /// # Errors
    /// As [`model`](Format::model).
    fn places(
        &self,
        model: &ModelConfig,
        settings: &Settings,
        contains: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<Place>>;

    /// What a tensor is that holds no parameter; `None` if it should not be there.
    fn spare(&self, model: &ModelConfig, tensor: &str) -> Option<Spare>;

    /// Tokens with which to compare outputs: not one of them ends a document.
    fn tokens(&self, model: &ModelConfig) -> Vec<u32>;

    /// The output of every segment of the model for one sequence, tokens x features, computed from the folder's own tensors.
    ///
    /// # Errors
    /// Those of reading the tensors.
    fn outputs(
        &self,
        settings: &Settings,
        tensors: &PlainFolder,
        tokens: &[u32],
    ) -> Result<Vec<Vec<f64>>>;
}
