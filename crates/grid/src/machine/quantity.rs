//! A number with its origin.

use serde::{Deserialize, Serialize};

/// The origin of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Read from a run, by us or by the named source.
    Measured,
    /// Stated by the vendor or the site.
    Datasheet,
    /// Chosen so that predictions agree with measurements; the source says which.
    Fitted,
}

/// A number, its class and its source. The unit is part of the field's name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// The number.
    pub value: f64,
    /// The kind of its origin.
    pub class: Class,
    /// Where it is published, or how it was measured.
    pub source: String,
}

impl Quantity {
    /// A number measured as `source` describes.
    pub fn measured(value: f64, source: impl Into<String>) -> Quantity {
        Quantity {
            value,
            class: Class::Measured,
            source: source.into(),
        }
    }
}
