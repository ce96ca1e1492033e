//! The six directions of the grid, with their names in this library and in others.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::nearest::nearest_name;
use crate::{Error, Result};

/// How many axes a grid has.
pub const NUM_AXES: usize = 6;

/// A direction of the process grid.
///
/// Normal layers contract over Y and emit over X; transposed layers contract over X and emit over Y.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Axis {
    /// Cuts the output features of a normal layer.
    X,
    /// Cuts the contracted features of a normal layer.
    Y,
    /// Cuts the sequences of the batch, and every weight once more.
    Z,
    /// Cuts the tokens of every sequence.
    Context,
    /// Holds replicas of the model, each with its part of the batch.
    Data,
    /// Cuts the model into stages of consecutive layers.
    Pipeline,
}

/// Every accepted spelling, in lower case; the first one listed for an axis is its name.
const SPELLINGS: [(&str, Axis); 27] = [
    ("x", Axis::X),
    ("y", Axis::Y),
    ("z", Axis::Z),
    ("context", Axis::Context),
    ("data", Axis::Data),
    ("pipeline", Axis::Pipeline),
    ("g_intra_x", Axis::X),
    ("g_intra_r", Axis::X),
    ("row", Axis::X),
    ("tp", Axis::X),
    ("tensor_model_parallel_size", Axis::X),
    ("g_intra_y", Axis::Y),
    ("g_intra_c", Axis::Y),
    ("col", Axis::Y),
    ("column", Axis::Y),
    ("g_intra_z", Axis::Z),
    ("g_intra_d", Axis::Z),
    ("depth", Axis::Z),
    ("cp", Axis::Context),
    ("context_parallel_size", Axis::Context),
    ("g_data", Axis::Data),
    ("dp", Axis::Data),
    ("data_parallel_size", Axis::Data),
    ("g_inter", Axis::Pipeline),
    ("pp", Axis::Pipeline),
    ("pipe", Axis::Pipeline),
    ("pipeline_model_parallel_size", Axis::Pipeline),
];

impl Axis {
    /// All axes, in the order in which they are written.
    pub const ALL: [Axis; NUM_AXES] = [
        Axis::X,
        Axis::Y,
        Axis::Z,
        Axis::Context,
        Axis::Data,
        Axis::Pipeline,
    ];

    /// The three axes of tensor parallelism.
    pub const fn tensor() -> [Axis; 3] {
        [Axis::X, Axis::Y, Axis::Z]
    }

    /// The name used in texts and configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Axis::X => "x",
            Axis::Y => "y",
            Axis::Z => "z",
            Axis::Context => "context",
            Axis::Data => "data",
            Axis::Pipeline => "pipeline",
        }
    }

    /// What the axis cuts, and the messages that result, in one sentence.
    pub const fn role(self) -> &'static str {
        match self {
            Axis::X => {
                "cuts the output features of a normal layer; the gradient of its input is all-reduced in backward"
            }
            Axis::Y => {
                "cuts the contracted features of a normal layer; its partial outputs are all-reduced in forward"
            }
            Axis::Z => {
                "cuts the sequences of the batch and every weight once more; \
                 weights are all-gathered before use, their gradients reduce-scattered"
            }
            Axis::Context => {
                "cuts the tokens of every sequence; keys and values are exchanged for attention, and gradients of weights summed"
            }
            Axis::Data => {
                "holds replicas that split the batch; their gradients are summed during backward"
            }
            Axis::Pipeline => {
                "cuts the layers into stages; activations are sent forward, gradients backward"
            }
        }
    }

    /// Position of the axis in [`Axis::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Axis {
    type Err = Error;

    /// Parses an axis by its name or by AxoNN's or Megatron's spelling, in any case and with `-` for `_`.
    ///
    /// # Errors
    /// [`Error::UnknownAxis`] with the nearest accepted spelling, if one is close.
    fn from_str(text: &str) -> Result<Self> {
        let wanted = normalise(text);
        let known = SPELLINGS.iter().find(|(spelling, _)| *spelling == wanted);
        known.map(|(_, axis)| *axis).ok_or_else(|| {
            let nearest = nearest_name(&wanted, SPELLINGS.iter().map(|(spelling, _)| *spelling));
            Error::UnknownAxis {
                found: text.trim().to_owned(),
                nearest,
            }
        })
    }
}

fn normalise(text: &str) -> String {
    let text = text.trim();
    text.trim_start_matches("--")
        .to_ascii_lowercase()
        .replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_are_what_serde_writes() {
        for axis in Axis::ALL {
            assert_eq!(axis.name().parse(), Ok(axis));
            assert_eq!(axis.to_string(), axis.name());
            assert_eq!(serde_json::to_string(&axis).unwrap(), format!("\"{axis}\""));
            assert_eq!(Axis::ALL[axis.index()], axis);
        }
    }

    #[test]
    fn other_systems_spellings_are_read() {
        let cases = [
            ("G_intra_r", Axis::X),
            ("G_intra_x", Axis::X),
            ("row", Axis::X),
            ("tp", Axis::X),
            ("--tensor-model-parallel-size", Axis::X),
            ("G_intra_c", Axis::Y),
            ("G_intra_y", Axis::Y),
            ("G_intra_d", Axis::Z),
            ("G_intra_z", Axis::Z),
            ("cp", Axis::Context),
            ("G_data", Axis::Data),
            ("DP", Axis::Data),
            ("G_inter", Axis::Pipeline),
            (" pp ", Axis::Pipeline),
        ];
        for (text, axis) in cases {
            assert_eq!(text.parse(), Ok(axis), "{text}");
        }
    }

    #[test]
    fn a_misspelling_is_answered_with_the_nearest_name() {
        let error = "pipline".parse::<Axis>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "axis: found `pipline`, needs one of x, y, z, context, data, pipeline; did you mean `pipeline`?"
        );
        let error = "w".parse::<Axis>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "axis: found `w`, needs one of x, y, z, context, data, pipeline"
        );
    }

    #[test]
    fn roles_differ_and_are_single_sentences() {
        for axis in Axis::ALL {
            assert!(
                !axis.role().contains(". ") && !axis.role().contains("  "),
                "{}",
                axis.role()
            );
            assert_eq!(
                Axis::ALL
                    .iter()
                    .filter(|other| other.role() == axis.role())
                    .count(),
                1
            );
        }
    }
}
