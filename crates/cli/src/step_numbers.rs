//! The numbers of a step in one line, smoothed, and as many of them as the line has room for.

use crate::numbers::{duration, figures, flop_rate, grouped};
use hal::error::Bytes;
use train::metrics::{Record, Throughput};

/// The fraction of the past that remains after a new step, as for the speed: about the last twenty steps count.
const KEPT_SHARE: f64 = 0.95;

/// The loss, smoothed: an exponential mean that is divided by the weights it has summed, so that the first steps are not
/// drawn to 0. A loss that is not finite is left out.
///
/// # Source
/// Kingma and Ba, Adam (arXiv:1412.6980), section 3: the correction of the bias of the moments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SmoothedLoss {
    sum: f64,
    weights: f64,
}

impl SmoothedLoss {
    /// Adds the loss of a step.
    pub(crate) fn update(&mut self, loss: f64) {
        if loss.is_finite() {
            self.sum = KEPT_SHARE * self.sum + (1.0 - KEPT_SHARE) * loss;
            self.weights = KEPT_SHARE * self.weights + (1.0 - KEPT_SHARE);
        }
    }

    /// The mean; `None` before the first step.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.weights > 0.0).then(|| self.sum / self.weights)
    }
}

/// A number in words, and its importance: of the numbers that do not fit, the one with the highest goes first.
type Part = (u8, String);

/// The numbers of a step on one line. If `columns` are too few for all of them, the less important ones are left out, but never
/// the loss.
pub(crate) fn line(
    record: &Record,
    (loss, throughput): (&SmoothedLoss, &Throughput),
    columns: Option<usize>,
) -> String {
    let shown = match record.loss.is_finite() {
        true => loss.mean().unwrap_or(record.loss),
        false => record.loss,
    };
    let validation = record.val_loss.map(|loss| format!("validation {loss:.4}"));
    let pairs = record.preferences.map(|pairs| {
        let right = 100.0 * pairs.accuracy;
        format!("margin {}, {right:.0} % preferred", figures(pairs.margin))
    });
    let left = throughput.time_left().filter(|left| !left.is_zero());
    let bytes = |name: &str, bytes: Option<u64>| {
        bytes.map(|bytes| format!("{name} {}", Bytes(bytes as usize)))
    };
    let parts = [
        (0, Some(format!("mean loss {shown:.4} nats"))),
        (1, validation),
        (2, pairs),
        (5, Some(format!("rate {}", scientific(record.lr)))),
        (6, Some(format!("gradient {}", figures(record.grad_norm)))),
        (
            3,
            Some(format!(
                "{} tokens/s",
                grouped(throughput.tokens_per_s() as u64)
            )),
        ),
        (4, work(record, throughput)),
        (2, left.map(|left| format!("{} left", duration(left)))),
        (7, bytes("memory", record.memory_bytes)),
        (8, bytes("peak", record.peak_memory_bytes)),
    ];
    let parts = parts.into_iter();
    fitting(
        parts
            .filter_map(|(rank, part)| Some((rank, part?)))
            .collect(),
        columns,
    )
}

fn fitting(mut parts: Vec<Part>, columns: Option<usize>) -> String {
    loop {
        let words: Vec<&str> = parts.iter().map(|(_, words)| words.as_str()).collect();
        let line = words.join(", ");
        let fits = columns.is_none_or(|columns| line.chars().count() <= columns);
        let least = parts.iter().enumerate().max_by_key(|(_, (rank, _))| *rank);
        match least {
            Some((index, (rank, _))) if !fits && *rank > 0 => drop(parts.remove(index)),
            _ => return line,
        }
    }
}

// The speed in flop, over the same steps as that in tokens: every token costs the same.
fn work(record: &Record, throughput: &Throughput) -> Option<String> {
    let smoothed = throughput.tokens_per_s() / record.tokens_per_s;
    let rate = record.flop_per_s.map(|speed| flop_rate(speed * smoothed));
    let share = record
        .mfu
        .map(|mfu| format!("MFU {:.1} %", 100.0 * mfu * smoothed));
    share.or(rate)
}

fn scientific(rate: f64) -> String {
    format!("{rate:.2e}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use train::preference::PreferenceMetrics;

    fn record() -> Record {
        Record {
            step: 1,
            loss: 2.5,
            grad_norm: 1.234,
            lr: 1.85e-3,
            tokens_per_s: 4096.0,
            step_s: 0.5,
            mfu: Some(0.349),
            memory_bytes: Some(3 << 29),
            peak_memory_bytes: Some(4 << 30),
            ..Record::default()
        }
    }

    fn after_one_step() -> (SmoothedLoss, Throughput) {
        let (mut loss, mut throughput) = (SmoothedLoss::default(), Throughput::new(10));
        loss.update(2.5);
        throughput.update(2048, Duration::from_millis(500));
        (loss, throughput)
    }

    #[test]
    fn the_mean_of_equal_losses_is_that_loss_from_the_first_step_on() {
        let mut loss = SmoothedLoss::default();
        assert_eq!(loss.mean(), None);
        for _ in 0..50 {
            loss.update(3.0);
            assert!((loss.mean().unwrap() - 3.0).abs() < 1e-12);
        }
        loss.update(f64::NAN);
        loss.update(1.0);
        // The last step has a weight of 0.05 / (1 - 0.95^51) in the mean.
        let weight = 0.05 / (1.0 - 0.95f64.powi(51));
        let expected = 3.0 - 2.0 * weight;
        assert!((loss.mean().unwrap() - expected).abs() < 1e-12);
    }

    #[test]
    fn a_wide_line_has_every_number() {
        let (loss, throughput) = after_one_step();
        let full = line(&record(), (&loss, &throughput), None);
        assert_eq!(
            full,
            "mean loss 2.5000 nats, rate 1.85e-3, gradient 1.23, 4,096 tokens/s, MFU 34.9 %, 4.5 s left, memory 1.5 GiB, peak 4.0 GiB"
        );
        let without_peak = Record {
            mfu: None,
            flop_per_s: Some(2.5e12),
            ..record()
        };
        let text = line(&without_peak, (&loss, &throughput), None);
        assert!(text.contains(", 2.5 Tflop/s, "), "{text}");
        let diverged = Record {
            loss: f64::NAN,
            ..record()
        };
        let text = line(&diverged, (&loss, &throughput), None);
        assert!(text.starts_with("mean loss NaN nats, "), "{text}");
    }

    #[test]
    fn a_narrow_line_drops_the_least_important_numbers() {
        let (loss, throughput) = after_one_step();
        let validated = Record {
            val_loss: Some(2.25),
            ..record()
        };
        for (columns, expected) in [
            (
                110,
                "mean loss 2.5000 nats, rate 1.85e-3, gradient 1.23, 4,096 tokens/s, MFU 34.9 %, 4.5 s left, memory 1.5 GiB",
            ),
            (
                76,
                "mean loss 2.5000 nats, rate 1.85e-3, 4,096 tokens/s, MFU 34.9 %, 4.5 s left",
            ),
            (50, "mean loss 2.5000 nats, 4,096 tokens/s, 4.5 s left"),
            (33, "mean loss 2.5000 nats, 4.5 s left"),
            (10, "mean loss 2.5000 nats"),
        ] {
            let found = line(&record(), (&loss, &throughput), Some(columns));
            assert_eq!(found, expected, "{columns}");
        }
        let of_pairs = Record {
            preferences: Some(PreferenceMetrics {
                margin: 0.25,
                accuracy: 0.75,
                ..PreferenceMetrics::default()
            }),
            ..record()
        };
        let found = line(&of_pairs, (&loss, &throughput), Some(50));
        assert_eq!(found, "mean loss 2.5000 nats, margin 0.25, 75 % preferred");
        let found = line(&validated, (&loss, &throughput), Some(40));
        assert_eq!(found, "mean loss 2.5000 nats, validation 2.2500");
    }
}
