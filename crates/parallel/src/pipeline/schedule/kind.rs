//! The choice of a schedule, as named in configurations and on command lines, and the properties that each one
//! promises.

use super::{
    Pace, Result, Schedule, ScheduleError, gpipe, interleaved, interleaved::warm_up,
    one_forward_one_backward, shape::Shape, simulate,
};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Chunks of `interleaved` if no number is given.
const DEFAULT_CHUNKS: usize = 2;

/// Which schedule; written `gpipe`, `1f1b`, `interleaved:2`, `message-driven` or `message-driven:4`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ScheduleKind {
    /// All forwards, then all backwards.
    GPipe,
    /// Alternating forwards and backwards.
    #[default]
    OneForwardOneBackward,
    /// Alternating forwards and backwards over several chunks of the model per stage.
    Interleaved {
        /// Chunks per stage.
        chunks: usize,
    },
    /// A stage acts on whichever message has arrived.
    MessageDriven {
        /// Micro-batches that a stage may have in flight; by default the number of stages.
        in_flight: Option<usize>,
    },
}

impl ScheduleKind {
    /// Number of model chunks that each stage must hold.
    pub fn num_chunks(self) -> usize {
        match self {
            ScheduleKind::Interleaved { chunks } => chunks,
            _ => 1,
        }
    }

    /// The most activations that stage `stage` may keep at a time, counted in chunk-forwards.
    ///
    /// Reached exactly by GPipe and 1F1B; a bound for the others.
    ///
    /// # Errors
    /// [`ScheduleError::Invalid`] when a count is zero, their product exceeds 4,194,304 passes, or there is no such
    /// stage.
    pub fn peak_live(
        self,
        stage: usize,
        num_stages: usize,
        num_micro_batches: usize,
    ) -> Result<usize> {
        let shape = Shape::new(
            "peak_live",
            num_stages,
            self.num_chunks(),
            num_micro_batches,
        )?;
        if stage >= num_stages {
            let (found, needed) = (
                format!("stage {stage}"),
                format!("a stage below {num_stages}"),
            );
            return Err(ScheduleError::Invalid {
                operation: "peak_live",
                found,
                needed,
            });
        }
        let bound = match self {
            ScheduleKind::GPipe => num_micro_batches,
            ScheduleKind::Interleaved { chunks } if chunks > 1 => warm_up(shape, stage) + 1,
            ScheduleKind::OneForwardOneBackward | ScheduleKind::Interleaved { .. } => {
                num_stages - stage
            }
            ScheduleKind::MessageDriven { in_flight } => in_flight.unwrap_or(num_stages),
        };
        Ok(bound.min(shape.num_chunks * num_micro_batches))
    }

    /// The idle fraction of each stage, if a formula gives it: messages take no time, and all passes of a
    /// direction take equally long.
    ///
    /// `None` for a message-driven schedule, and for an interleaved one whose micro-batches do not fill whole groups.
    pub fn bubble(self, num_stages: usize, num_micro_batches: usize) -> Option<f64> {
        let chunks = self.num_chunks();
        let whole_groups = chunks == 1 || num_micro_batches.checked_rem(num_stages) == Some(0);
        let formula = whole_groups && !matches!(self, ScheduleKind::MessageDriven { .. });
        let waits = num_stages.checked_sub(1)? as f64;
        let works = chunks as f64 * num_micro_batches as f64;
        (formula && works > 0.0).then(|| waits / (works + waits))
    }
}

/// Makes the schedule of that kind.
///
/// A message-driven run decides as it goes. This returns the schedule that it follows if messages take no time
/// and a backward takes twice as long as a forward.
///
/// # Errors
/// [`ScheduleError::Invalid`] when a count or the limit in flight is zero, or the product of the counts exceeds
/// 4,194,304 passes.
pub fn build(kind: ScheduleKind, num_stages: usize, num_micro_batches: usize) -> Result<Schedule> {
    match kind {
        ScheduleKind::GPipe => gpipe(num_stages, num_micro_batches),
        ScheduleKind::OneForwardOneBackward => {
            one_forward_one_backward(num_stages, num_micro_batches)
        }
        ScheduleKind::Interleaved { chunks } => interleaved(num_stages, chunks, num_micro_batches),
        ScheduleKind::MessageDriven { in_flight } => simulate(
            num_stages,
            num_micro_batches,
            in_flight,
            Pace {
                forward_us: 1,
                backward_us: 2,
            },
            |_| 0,
        ),
    }
}

impl fmt::Display for ScheduleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScheduleKind::GPipe => f.write_str("gpipe"),
            ScheduleKind::OneForwardOneBackward => f.write_str("1f1b"),
            ScheduleKind::Interleaved { chunks } => write!(f, "interleaved:{chunks}"),
            ScheduleKind::MessageDriven { in_flight: None } => f.write_str("message-driven"),
            ScheduleKind::MessageDriven {
                in_flight: Some(limit),
            } => write!(f, "message-driven:{limit}"),
        }
    }
}

impl FromStr for ScheduleKind {
    type Err = ScheduleError;

    /// Reads its name.
    ///
    /// # Errors
    /// [`ScheduleError::Name`] for another name or a number below 1.
    fn from_str(text: &str) -> Result<ScheduleKind> {
        let wrong = || ScheduleError::Name {
            found: text.to_string(),
        };
        let (name, number) = match text.split_once(':') {
            Some((name, digits)) => (name, Some(positive(digits).ok_or_else(wrong)?)),
            None => (text, None),
        };
        match (name, number) {
            ("gpipe", None) => Ok(ScheduleKind::GPipe),
            ("1f1b", None) => Ok(ScheduleKind::OneForwardOneBackward),
            ("interleaved", _) => Ok(ScheduleKind::Interleaved {
                chunks: number.unwrap_or(DEFAULT_CHUNKS),
            }),
            ("message-driven", _) => Ok(ScheduleKind::MessageDriven { in_flight: number }),
            _ => Err(wrong()),
        }
    }
}

fn positive(digits: &str) -> Option<usize> {
    digits.parse().ok().filter(|number| *number > 0)
}

impl TryFrom<String> for ScheduleKind {
    type Error = ScheduleError;

    fn try_from(text: String) -> Result<ScheduleKind> {
        text.parse()
    }
}

impl From<ScheduleKind> for String {
    fn from(kind: ScheduleKind) -> String {
        kind.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in [
            "gpipe",
            "1f1b",
            "interleaved:3",
            "message-driven",
            "message-driven:4",
        ] {
            assert_eq!(name.parse::<ScheduleKind>().unwrap().to_string(), name);
        }
        assert_eq!(
            "interleaved".parse(),
            Ok(ScheduleKind::Interleaved { chunks: 2 })
        );
    }

    #[test]
    fn configurations_hold_the_name() {
        use serde::de::{IntoDeserializer, value::Error};
        let read = |name: &str| {
            ScheduleKind::deserialize(IntoDeserializer::<Error>::into_deserializer(name))
        };
        assert_eq!(
            read("message-driven:4"),
            Ok(ScheduleKind::MessageDriven { in_flight: Some(4) })
        );
        assert!(
            read("interleaved:0")
                .unwrap_err()
                .to_string()
                .contains("`interleaved:0`")
        );
    }

    #[test]
    fn wrong_names_are_refused() {
        for name in [
            "",
            "GPipe",
            "gpipe:2",
            "1f1b:1",
            "interleaved:0",
            "interleaved:",
            "message-driven:-1",
            "x:2",
        ] {
            let text = name.parse::<ScheduleKind>().unwrap_err().to_string();
            assert!(text.contains(&format!("`{name}`")), "{text}");
        }
    }
}
