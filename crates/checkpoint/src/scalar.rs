//! Numbers beside the tensors that decide how training continues.

use crate::Reader;
use serde::Serialize;
use std::fmt;

/// A number that a checkpoint holds beside its tensors, such as the loss scale.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scalar {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: ScalarValue,
}

/// The value of a [`Scalar`]. Displays as the shortest decimal that leads back to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ScalarValue {
    /// A count.
    U64(u64),
    /// Any number.
    F64(f64),
}

impl ScalarValue {
    /// The name of its type.
    pub(crate) fn dtype(self) -> &'static str {
        match self {
            ScalarValue::U64(_) => "u64",
            ScalarValue::F64(_) => "f64",
        }
    }

    /// Its bytes as a file would store them.
    pub(crate) fn bytes(self) -> [u8; 8] {
        match self {
            ScalarValue::U64(value) => value.to_le_bytes(),
            ScalarValue::F64(value) => value.to_le_bytes(),
        }
    }
}

impl fmt::Display for ScalarValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScalarValue::U64(value) => write!(f, "{value}"),
            ScalarValue::F64(value) => write!(f, "{value:?}"),
        }
    }
}

/// The step of a checkpoint, which every checkpoint has, before the other scalars.
pub(crate) fn with_step(reader: &Reader, scalars: &[Scalar]) -> Vec<Scalar> {
    let step = Scalar {
        name: "step",
        value: ScalarValue::U64(reader.step()),
    };
    [&[step], scalars].concat()
}
