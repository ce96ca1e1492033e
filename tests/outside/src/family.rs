//! A custom family, which a configuration names like the library's own.

use crate::{
    data::Waves,
    model::{FEATURES, Residual},
};
use fascicle::{
    nn::Builder,
    parallel::{self, Model},
    train::{
        Architecture, Error, Family, ModelConfig, Result,
        architecture::model_of,
        batches::{Batches, Values},
    },
};
use serde::{Deserialize, Serialize};
use std::{any::Any, sync::Arc};

/// Sizes of a residual network.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sizes {
    family: String,
    /// Residual blocks.
    pub blocks: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes {
            family: "residual".into(),
            blocks: 6,
        }
    }
}

impl Architecture for Sizes {
    fn family(&self) -> &str {
        &self.family
    }

    fn table(&self) -> Result<toml::Table> {
        toml::Table::try_from(self)
            .map_err(|error| Error::setting("model", error, "values that TOML can hold"))
    }

    fn describe(&self) -> String {
        format!("a residual network of {} blocks", self.blocks)
    }

    fn build(&self, builder: &Builder) -> parallel::Result<Box<dyn Model>> {
        Ok(Box::new(Residual::new(builder, self.blocks)?))
    }

    fn columns(&self) -> Vec<(String, Vec<usize>, Values)> {
        vec![
            (
                "features".into(),
                vec![FEATURES],
                vec![0.0f64; FEATURES].into(),
            ),
            ("wanted".into(), vec![1], vec![0.0f64].into()),
        ]
    }

    fn batches(&self) -> Option<Arc<dyn Batches>> {
        Some(Arc::new(Waves))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The family, for the registry.
pub struct Residuals;

impl Family for Residuals {
    fn name(&self) -> &str {
        "residual"
    }

    fn read(&self, document: &str) -> std::result::Result<ModelConfig, toml::de::Error> {
        model_of::<Sizes>(document).map(ModelConfig::new)
    }
}
