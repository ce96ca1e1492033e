//! How rotary positions are stretched.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use tensor::ops::attention::RotaryStretch;
use train::{Error, Result, config::KeyType};

/// A change of rotary positions for a context beyond that of the first training.
///
/// In text: `none`, `linear:FACTOR`, or `llama3:FACTOR:LOW:HIGH:CONTEXT`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RopeScaling {
    /// Positions as they are.
    #[default]
    None,
    /// All positions divided by this factor.
    Linear(f64),
    /// As in Llama 3.1: low frequencies divided.
    Llama3 {
        /// The divisor.
        factor: f64,
        /// Wavelengths above `context / low` tokens are multiplied by the factor.
        low: f64,
        /// Wavelengths below `context / high` tokens stay.
        high: f64,
        /// Tokens in a sequence of the first training.
        context: usize,
    },
}

impl RopeScaling {
    /// The change of the frequencies.
    pub fn stretch(self) -> Option<RotaryStretch> {
        let (factor, short, long) = match self {
            RopeScaling::None => return None,
            RopeScaling::Linear(factor) => (factor, 0.0, 0.0),
            RopeScaling::Llama3 {
                factor,
                low,
                high,
                context,
            } => (factor, context as f64 / high, context as f64 / low),
        };
        Some(RotaryStretch {
            factor,
            short,
            long,
        })
    }

    /// # Errors
    /// [`Error::Setting`] for a number that is not finite and above 0, and for wavelengths that do not grow.
    pub(super) fn check(self) -> Result<()> {
        let is_valid = match self {
            RopeScaling::None => true,
            RopeScaling::Linear(factor) => is_positive(factor),
            RopeScaling::Llama3 {
                factor,
                low,
                high,
                context,
            } => [factor, low, high].into_iter().all(is_positive) && low <= high && context > 0,
        };
        match is_valid {
            true => Ok(()),
            false => Err(Error::setting(
                "model.rope_scaling",
                self,
                "finite numbers above 0, and LOW at most HIGH",
            )),
        }
    }
}

fn is_positive(number: f64) -> bool {
    number.is_finite() && number > 0.0
}

impl FromStr for RopeScaling {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<RopeScaling, String> {
        let refuse = || {
            format!("found `{text}`, needs none, linear:FACTOR or llama3:FACTOR:LOW:HIGH:CONTEXT")
        };
        let number = |text: &str| text.parse::<f64>().map_err(|_| refuse());
        match text.split(':').collect::<Vec<_>>()[..] {
            ["none"] => Ok(RopeScaling::None),
            ["linear", factor] => Ok(RopeScaling::Linear(number(factor)?)),
            ["llama3", factor, low, high, context] => Ok(RopeScaling::Llama3 {
                factor: number(factor)?,
                low: number(low)?,
                high: number(high)?,
                context: context.parse().map_err(|_| refuse())?,
            }),
            _ => Err(refuse()),
        }
    }
}

impl fmt::Display for RopeScaling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RopeScaling::None => write!(f, "none"),
            RopeScaling::Linear(factor) => write!(f, "linear:{factor}"),
            RopeScaling::Llama3 {
                factor,
                low,
                high,
                context,
            } => write!(f, "llama3:{factor}:{low}:{high}:{context}"),
        }
    }
}

impl TryFrom<String> for RopeScaling {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<RopeScaling, String> {
        text.parse()
    }
}

impl From<RopeScaling> for String {
    fn from(scaling: RopeScaling) -> String {
        scaling.to_string()
    }
}

impl KeyType for RopeScaling {
    fn values() -> String {
        "`none`, `linear:FACTOR` or `llama3:FACTOR:LOW:HIGH:CONTEXT`".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GptConfig, GptFamily};
    use train::Architecture;

    #[test]
    fn the_text_form_leads_back() {
        for text in ["none", "linear:4", "linear:2.5", "llama3:8:1:4:8192"] {
            assert_eq!(text.parse::<RopeScaling>().unwrap().to_string(), text);
        }
        for text in ["", "linear", "linear:x", "llama3:8:1:4", "yarn:4", "none:1"] {
            let error = text.parse::<RopeScaling>().unwrap_err();
            assert!(error.contains("needs none, linear:FACTOR"), "{error}");
        }
    }

    #[test]
    fn a_model_refuses_what_cannot_be() {
        let config = |family, text: &str| GptConfig {
            family,
            vocabulary: 8,
            rope_scaling: text.parse().unwrap(),
            ..GptConfig::default()
        };
        config(GptFamily::Llama, "llama3:8:1:4:8192")
            .check()
            .unwrap();
        for (family, text) in [
            (GptFamily::Llama, "linear:0"),
            (GptFamily::Llama, "linear:nan"),
            (GptFamily::Llama, "llama3:8:4:1:8192"),
            (GptFamily::Llama, "llama3:8:1:4:0"),
            (GptFamily::Gpt2, "linear:4"),
        ] {
            let error = config(family, text).check().unwrap_err().to_string();
            assert!(error.contains("model.rope_scaling"), "{error}");
        }
    }
}
