//! The choice of a schedule, as named in configurations and on command lines, and the properties that each one
//! promises.

use super::{
    Pace, Placement, Result, Schedule, ScheduleError, Stages, Times, gpipe, interleaved,
    interleaved::warm_up, one_forward_one_backward, pipedream, pipedream_2bw, shape::Shape,
    simulate, zb_h1, zb_v,
};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Chunks of `interleaved` if no number is given.
const DEFAULT_CHUNKS: usize = 2;

/// Which schedule; written `gpipe`, `1f1b`, `interleaved:2`, `message-driven`, `message-driven:4`, `zb-h1`,
/// `zb-v`, `pipedream` or `pipedream-2bw`.
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
    /// 1F1B whose gradients of weights fill the bubble; it keeps no more activations than the first stage of 1F1B.
    ZbH1,
    /// Zero bubble over two chunks of the model per stage, which lead through the stages and back.
    ZbV,
    /// 1F1B without a flush between steps (PipeDream-2BW), and with other numbers than every other schedule: the gradients of
    /// a batch are those at the weights of one update before. With w(t) the weights after t updates,
    /// w(t+1) = w(t) - rate * gradient(batch t, w(t-1)), and w(-1) = w(0).
    PipeDream2Bw,
    /// 1F1B with an update for each micro-batch on each stage and without a flush (PipeDream with weight stashing). Its numbers
    /// depend on the number of stages p too. With w(u) the weights of stage s after u updates,
    /// w(u+1) = w(u) - rate * gradient(micro-batch u, w(u-(p-1-s))), and w(u) = w(0) for u < 0.
    PipeDream,
}

impl ScheduleKind {
    /// Number of model chunks that each stage must hold.
    pub fn num_chunks(self) -> usize {
        match self {
            ScheduleKind::Interleaved { chunks } => chunks,
            ScheduleKind::ZbV => 2,
            _ => 1,
        }
    }

    /// The stages of a pipeline of this kind.
    pub fn stages(self, number: usize) -> Stages {
        Stages {
            number,
            chunks: self.num_chunks(),
            placement: match self {
                ScheduleKind::ZbV => Placement::V,
                _ => Placement::Wrap,
            },
        }
    }

    /// Whether gradients are those at the weights of earlier updates, so that stages hold several versions and begin a step before
    /// the one before it has ended.
    pub fn delays_gradients(self) -> bool {
        matches!(self, ScheduleKind::PipeDream2Bw | ScheduleKind::PipeDream)
    }

    /// Whether a stage updates its weights after each micro-batch, without waiting for other stages.
    pub fn updates_each_micro_batch(self) -> bool {
        self == ScheduleKind::PipeDream
    }

    /// Versions of the weights that stage `stage` of `num_stages` holds.
    pub fn versions(self, stage: usize, num_stages: usize) -> usize {
        match self {
            ScheduleKind::PipeDream => num_stages.saturating_sub(stage).max(1),
            ScheduleKind::PipeDream2Bw => 2,
            _ => 1,
        }
    }

    /// Whether backwards put off the gradients of weights.
    pub fn splits_backward(self) -> bool {
        matches!(self, ScheduleKind::ZbH1 | ScheduleKind::ZbV)
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
        let shape = Shape::new("peak_live", self.stages(num_stages), num_micro_batches)?;
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
            ScheduleKind::ZbH1 => num_stages,
            ScheduleKind::ZbV => 2 * num_stages,
            ScheduleKind::PipeDream2Bw | ScheduleKind::PipeDream => num_stages - stage,
        };
        Ok(bound.min(shape.stages.chunks * num_micro_batches))
    }

    /// The most micro-batches that each part of the model has between forward and backward at a time.
    ///
    /// # Errors
    /// As [`build`].
    pub fn in_flight(self, num_stages: usize, num_micro_batches: usize) -> Result<Vec<usize>> {
        if let ScheduleKind::MessageDriven { .. } = self {
            // Which of them are in flight depends on messages, their number does not.
            let most = |stage| self.peak_live(stage, num_stages, num_micro_batches);
            return (0..num_stages).map(most).collect();
        }
        Ok(build(self, num_stages, num_micro_batches)?.in_flight())
    }

    /// How long a stage waits in a step, in microseconds, where messages take no time and there are at least as many
    /// micro-batches as stages; `times` are those of all chunks of a stage together.
    ///
    /// Exact for the schedules for which [`bubble`](ScheduleKind::bubble) is, otherwise an estimate. For schedules that split
    /// backwards it is the stage that waits least, because the others wait before and after their work.
    pub fn idle_us(self, num_stages: usize, times: &Times) -> f64 {
        let waits = num_stages.saturating_sub(1) as f64;
        let of_a_hop = match self {
            ScheduleKind::ZbH1 => times.forward_us + times.inputs_us - times.weights_us,
            ScheduleKind::ZbV => times.inputs_us / 2.0,
            // Of a step after which another one follows.
            ScheduleKind::PipeDream2Bw => {
                return if num_stages > 1 {
                    times.forward_us
                } else {
                    0.0
                };
            }
            ScheduleKind::PipeDream => times.inputs_us + times.weights_us,
            plain => times.total_us() / plain.num_chunks() as f64,
        };
        waits * of_a_hop.max(0.0)
    }

    /// The idle fraction of the stage that waits least, if a formula gives it: messages take no time, and all passes of a
    /// direction take equally long.
    ///
    /// `None` for a message-driven schedule, for an interleaved one whose micro-batches do not fill whole groups, and for
    /// ZB-H1 and ZB-V where the conditions of [`zb_h1`] and [`zb_v`] do not hold.
    pub fn bubble(self, num_stages: usize, num_micro_batches: usize, times: &Times) -> Option<f64> {
        let is_exact = match self {
            ScheduleKind::GPipe | ScheduleKind::OneForwardOneBackward => true,
            ScheduleKind::Interleaved { chunks } => {
                chunks == 1 || num_micro_batches.checked_rem(num_stages) == Some(0)
            }
            ScheduleKind::ZbH1 => {
                let fits = times.weights_us <= times.forward_us.min(times.inputs_us);
                fits && num_micro_batches >= num_stages
            }
            ScheduleKind::ZbV => {
                num_micro_batches + 1 >= 2 * num_stages && times.forward_us <= times.inputs_us
            }
            ScheduleKind::PipeDream2Bw => {
                num_micro_batches >= num_stages
                    && times.inputs_us + times.weights_us == 2.0 * times.forward_us
            }
            ScheduleKind::PipeDream => num_micro_batches >= num_stages,
            ScheduleKind::MessageDriven { .. } => false,
        };
        let chunks = self.num_chunks() as f64;
        let works = chunks * num_micro_batches as f64 * times.total_us();
        let idle = self.idle_us(num_stages, &times.times(chunks));
        (is_exact && num_stages > 0 && works > 0.0).then(|| idle / (works + idle))
    }
}

/// Makes the schedule of that kind.
///
/// A message-driven run decides as it goes. This returns the schedule that it follows if messages take no time
/// and a backward takes twice as long as a forward. Of schedules that delay gradients it returns three steps in a row, whose
/// micro-batches are counted through.
///
/// # Errors
/// [`ScheduleError::Invalid`] when a count or the limit in flight is zero, as [`pipedream_2bw`](pipedream_2bw()) and [`pipedream`](pipedream()), or the product of the counts exceeds
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
        ScheduleKind::ZbH1 => zb_h1(num_stages, num_micro_batches),
        ScheduleKind::ZbV => zb_v(num_stages, num_micro_batches),
        ScheduleKind::PipeDream2Bw => {
            pipedream_2bw(num_stages, num_micro_batches).map(|overlapped| overlapped.steps)
        }
        ScheduleKind::PipeDream => {
            pipedream(num_stages, num_micro_batches).map(|overlapped| overlapped.steps)
        }
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
            ScheduleKind::ZbH1 => f.write_str("zb-h1"),
            ScheduleKind::ZbV => f.write_str("zb-v"),
            ScheduleKind::PipeDream2Bw => f.write_str("pipedream-2bw"),
            ScheduleKind::PipeDream => f.write_str("pipedream"),
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
            ("zb-h1", None) => Ok(ScheduleKind::ZbH1),
            ("zb-v", None) => Ok(ScheduleKind::ZbV),
            ("pipedream-2bw", None) => Ok(ScheduleKind::PipeDream2Bw),
            ("pipedream", None) => Ok(ScheduleKind::PipeDream),
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
            "zb-h1",
            "zb-v",
            "pipedream-2bw",
            "pipedream",
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
            "zb-v:2",
            "pipedream:2",
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
