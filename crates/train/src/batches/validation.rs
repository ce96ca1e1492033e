//! The sets of a validation, and their losses.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Batches of a validation that have a loss of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValidationSet {
    /// What it is called in the records.
    pub name: String,
    /// Its batches among all of the validation.
    pub batches: Range<usize>,
    /// Its weight in the loss of the validation, beside those of the others; 0 for a set that is only watched.
    pub weight: f64,
}

/// The losses of a validation; the same on every rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Validation {
    /// The weighted mean over the sets; absent if nothing has a weight.
    pub loss: Option<f64>,
    /// The loss of each set by its name, in the order of the sets.
    pub sets: Vec<(String, f64)>,
}

impl Validation {
    /// Of the mean loss of each set.
    pub(crate) fn of(losses: Vec<(ValidationSet, f64)>) -> Validation {
        let total: f64 = losses.iter().map(|(set, _)| set.weight).sum();
        // A set without a weight counts for nothing, whatever its loss.
        let weighed = losses.iter().filter(|(set, _)| set.weight > 0.0);
        let sum: f64 = weighed.map(|(set, loss)| set.weight * loss).sum();
        Validation {
            loss: (total > 0.0).then(|| sum / total),
            sets: losses
                .into_iter()
                .map(|(set, loss)| (set.name, loss))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, weight: f64) -> ValidationSet {
        let (name, batches) = (name.to_owned(), 0..1);
        ValidationSet {
            name,
            batches,
            weight,
        }
    }

    #[test]
    fn the_loss_is_the_weighted_mean_of_what_has_a_weight() {
        let sets = vec![
            (set("a", 3.0), 2.0),
            (set("b", 1.0), 4.0),
            (set("watched", 0.0), f64::NAN),
        ];
        let validation = Validation::of(sets);
        assert_eq!(validation.loss, Some(2.5));
        assert_eq!(validation.sets[1], ("b".to_owned(), 4.0));
        assert!(validation.sets[2].1.is_nan());
    }

    #[test]
    fn nothing_to_validate_on_has_no_loss() {
        assert_eq!(Validation::of(Vec::new()).loss, None);
        assert_eq!(Validation::of(vec![(set("a", 0.0), 1.0)]).loss, None);
    }
}
