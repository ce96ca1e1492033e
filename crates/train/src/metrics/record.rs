//! One step of a run, and the file that holds them all.

use std::{collections::BTreeMap, path::Path};

use hal::files;
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};

use super::{Error, Result};
use crate::{PeakMemory, preference::PreferenceMetrics};

/// The record of one step.
///
/// JSON cannot represent NaN and infinity: such a number is written as `null` and read as NaN.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The step.
    pub step: u64,
    /// Mean training loss over the step's tokens, in nats.
    #[serde(deserialize_with = "number_or_nan")]
    pub loss: f64,
    /// Norm of the full gradient, before clipping.
    #[serde(deserialize_with = "number_or_nan")]
    pub grad_norm: f64,
    /// Learning rate.
    #[serde(deserialize_with = "number_or_nan")]
    pub lr: f64,
    /// Tokens per second, over all ranks.
    #[serde(deserialize_with = "number_or_nan")]
    pub tokens_per_s: f64,
    /// Duration of the step in seconds.
    #[serde(deserialize_with = "number_or_nan")]
    pub step_s: f64,
    /// Tokens that the run has trained on, from its first step to the end of this one; if the data is not text, rows. 0 in the
    /// files of earlier releases.
    #[serde(default)]
    pub tokens: u64,
    /// The time at the end of the step, in seconds since 1970; 0 in the files of earlier releases.
    #[serde(default, deserialize_with = "number_or_nan")]
    pub time: f64,
    /// Validation loss, on steps with a validation.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some_number_or_nan"
    )]
    pub val_loss: Option<f64>,
    /// The loss of each set of that validation, if it has several.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "numbers_or_nan"
    )]
    pub val_losses: BTreeMap<String, f64>,
    /// Means over the pairs of the step, if it is on preferences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferences: Option<PreferenceMetrics>,
    /// Means over the pairs of the validation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub val_preferences: Option<PreferenceMetrics>,
    /// SHA-256 of what the step computed, on steps with a [`StepDigest`](crate::digest::StepDigest).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The loss scale in half precision.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some_number_or_nan"
    )]
    pub loss_scale: Option<f64>,
    /// Flop/s of the model over all ranks, without what is recomputed; absent in the files of earlier releases.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some_number_or_nan"
    )]
    pub flop_per_s: Option<f64>,
    /// Model flop utilisation: that speed as a fraction of the peak of all devices, where the peak is known.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some_number_or_nan"
    )]
    pub mfu: Option<f64>,
    /// Bytes that tensors hold after the step on the rank that holds the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The most bytes that tensors have held at one time on any one rank since the run was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    /// That peak by kind, in the first step that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<PeakByKind>,
}

/// The most that tensors held at one time on one rank, by purpose.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeakByKind {
    /// That rank; if there are several, the first.
    pub rank: usize,
    /// Bytes by the name of their purpose ([`MemoryKind`](tensor::MemoryKind)), without those that hold none.
    pub by_kind: BTreeMap<String, u64>,
}

impl From<&PeakMemory> for PeakByKind {
    fn from(peak: &PeakMemory) -> PeakByKind {
        let kinds = peak.kinds();
        PeakByKind {
            rank: peak.rank,
            by_kind: kinds
                .map(|(kind, bytes)| (kind.to_owned(), bytes as u64))
                .collect(),
        }
    }
}

/// A line of a file that grows with the steps of a run.
pub trait Stepped: Serialize + DeserializeOwned {
    /// Whether every step has a line.
    const IN_EVERY_STEP: bool;

    /// The step, counted from 1.
    fn step(&self) -> u64;
}

impl Stepped for Record {
    const IN_EVERY_STEP: bool = true;

    fn step(&self) -> u64 {
        self.step
    }
}

pub(crate) fn number_or_nan<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// Called only if the field is present, so a `null` is a number that was not finite.
fn some_number_or_nan<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<f64>, D::Error> {
    number_or_nan(deserializer).map(Some)
}

fn numbers_or_nan<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<BTreeMap<String, f64>, D::Error> {
    let found = BTreeMap::<String, Option<f64>>::deserialize(deserializer)?;
    let found = found.into_iter();
    Ok(found
        .map(|(name, loss)| (name, loss.unwrap_or(f64::NAN)))
        .collect())
}

/// Reads a file of lines, such as `metrics.jsonl`.
///
/// Ignores an incomplete last line: the run may be writing it, or was killed while it did.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read; [`Error::Line`] for a complete line that is not a record.
pub fn read<T: Stepped>(path: &Path) -> Result<Vec<T>> {
    let text = read_bytes(path)?;
    whole_lines(&text)
        .enumerate()
        .map(|(index, line)| parse(path, index + 1, line))
        .collect()
}

/// The most bytes of a run's records.
const MOST_BYTES: u64 = 4 << 30;

/// The content of a file.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    files::read(path, MOST_BYTES).map_err(|error| Error::io("reading", path, error))
}

/// The complete lines, without their line ends.
pub(super) fn whole_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|&byte| byte == b'\n')
        .filter_map(|line| line.strip_suffix(b"\n"))
}

pub(super) fn parse<T: Stepped>(path: &Path, line: usize, text: &[u8]) -> Result<T> {
    serde_json::from_slice(text).map_err(|error| {
        let (path, reason) = (path.to_path_buf(), error.to_string());
        Error::Line { path, line, reason }
    })
}

#[cfg(test)]
pub(super) fn sample(step: u64, loss: f64) -> Record {
    let (grad_norm, lr, tokens_per_s, step_s) = (1.5, 1e-3, 2048.0, 0.5);
    Record {
        step,
        loss,
        grad_norm,
        lr,
        tokens_per_s,
        step_s,
        tokens: 2048 * step,
        time: 1.5e9,
        ..Record::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn there_and_back(record: &Record) -> Record {
        serde_json::from_str(&serde_json::to_string(record).unwrap()).unwrap()
    }

    #[test]
    fn optional_fields_are_left_out() {
        let json = serde_json::to_string(&sample(3, 2.5)).unwrap();
        assert_eq!(
            json,
            r#"{"step":3,"loss":2.5,"grad_norm":1.5,"lr":0.001,"tokens_per_s":2048.0,"step_s":0.5,"tokens":6144,"time":1500000000.0}"#
        );
        let full = Record {
            val_loss: Some(2.25),
            val_losses: [("code".to_owned(), 2.5), ("text".to_owned(), 2.0)].into(),
            preferences: Some(PreferenceMetrics {
                accuracy: 0.75,
                ..PreferenceMetrics::default()
            }),
            val_preferences: Some(PreferenceMetrics::default()),
            loss_scale: Some(1024.0),
            flop_per_s: Some(3.5e12),
            mfu: Some(0.25),
            memory_bytes: Some(1 << 30),
            peak_memory_bytes: Some(3 << 30),
            peak: Some(PeakByKind {
                rank: 2,
                by_kind: [("weights".to_owned(), 3 << 30)].into(),
            }),
            ..sample(4, 2.0)
        };
        assert_eq!(there_and_back(&full), full);
    }

    #[test]
    fn a_diverged_step_is_still_json() {
        let record = Record {
            grad_norm: f64::INFINITY,
            val_loss: Some(f64::NAN),
            val_losses: [("code".to_owned(), f64::NAN)].into(),
            ..sample(3, f64::NAN)
        };
        let back = there_and_back(&record);
        assert!(back.loss.is_nan() && back.grad_norm.is_nan());
        assert!(back.val_loss.is_some_and(f64::is_nan));
        assert!(back.val_losses["code"].is_nan());
        assert_eq!(back.loss_scale, None);
    }

    #[test]
    fn a_spoilt_line_is_numbered_and_a_torn_one_left_out() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let line = serde_json::to_string(&sample(1, 2.0)).unwrap();
        fs::write(file.path(), format!("{line}\n{line}\n{}", &line[..20])).unwrap();
        assert_eq!(read::<Record>(file.path()).unwrap().len(), 2);
        fs::write(file.path(), format!("{line}\nstep 2\n")).unwrap();
        let error = read::<Record>(file.path()).unwrap_err().to_string();
        assert!(error.contains(" line 2: "), "{error}");
    }
}
