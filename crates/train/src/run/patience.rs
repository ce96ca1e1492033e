//! When a run ends because its validations no longer improve.

use crate::{Result, checkpoint::Reader, config::TrainingConfig, trainer::stored};
use serde::{Deserialize, Serialize};

/// The lowest validation loss of a run, and how long ago it was found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BestValidation {
    /// The lowest loss.
    pub loss: f64,
    /// The step after which it was found.
    pub step: u64,
    /// Validations since then, none of which was lower.
    pub since: u64,
}

impl BestValidation {
    /// What a run knows after another validation. A loss that is lower by no more than `min_delta` is not lower.
    pub(super) fn after(
        before: Option<BestValidation>,
        (step, loss): (u64, f64),
        min_delta: f64,
    ) -> Option<BestValidation> {
        let is_lower = before.is_none_or(|best| loss < best.loss - min_delta);
        match before {
            Some(best) if !is_lower => Some(BestValidation {
                since: best.since + 1,
                ..best
            }),
            // Without any number so far there is nothing to improve on.
            None if !loss.is_finite() => None,
            _ => Some(BestValidation {
                loss,
                step,
                since: 0,
            }),
        }
    }

    /// Whether as many validations passed as a run waits for a lower one.
    pub fn is_out_of_patience(&self, training: &TrainingConfig) -> bool {
        (1..=self.since).contains(&training.patience)
    }

    /// Whether a run with such settings ends with this checkpoint: with its last step, or out of patience.
    ///
    /// # Errors
    /// As [`of`](BestValidation::of).
    pub fn is_last(reader: &Reader, training: &TrainingConfig) -> Result<bool> {
        let is_out = |best: BestValidation| best.is_out_of_patience(training);
        Ok(reader.step() >= training.steps || BestValidation::of(reader)?.is_some_and(is_out))
    }

    /// That of the run that wrote a checkpoint, if it has validated with patience.
    ///
    /// # Errors
    /// [`Error::Mismatch`](crate::Error::Mismatch) if another program wrote it.
    pub fn of(reader: &Reader) -> Result<Option<BestValidation>> {
        Ok(stored(reader)?.best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(losses: &[f64], min_delta: f64) -> Option<BestValidation> {
        let numbered = losses.iter().zip(1..);
        numbered.fold(None, |before, (loss, step)| {
            BestValidation::after(before, (step, *loss), min_delta)
        })
    }

    #[test]
    fn a_lower_loss_begins_anew() {
        let best = |loss, step, since| Some(BestValidation { loss, step, since });
        assert_eq!(after(&[3.0, 2.0, 2.0, 2.5], 0.0), best(2.0, 2, 2));
        assert_eq!(after(&[3.0, 2.0, 2.5, 1.5], 0.0), best(1.5, 4, 0));
        // Too little is not lower, and does not move what others are compared with.
        assert_eq!(after(&[3.0, 2.95, 2.91], 0.1), best(3.0, 1, 2));
        assert_eq!(after(&[3.0, 2.95, 2.85], 0.1), best(2.85, 3, 0));
    }

    #[test]
    fn what_is_no_number_is_never_lower() {
        assert_eq!(after(&[f64::NAN], 0.0), None);
        assert_eq!(
            after(&[2.0, f64::NAN, f64::NAN], 0.0).map(|best| best.since),
            Some(2)
        );
        assert_eq!(after(&[f64::NAN, 2.0], 0.0).map(|best| best.step), Some(2));
    }

    #[test]
    fn patience_of_0_never_ends() {
        let mut training = TrainingConfig::default();
        let best = after(&[1.0, 2.0, 2.0, 2.0], 0.0).unwrap();
        assert!(!best.is_out_of_patience(&training));
        for (patience, ends) in [(2, true), (3, true), (4, false)] {
            training.patience = patience;
            assert_eq!(best.is_out_of_patience(&training), ends, "{patience}");
        }
    }
}
