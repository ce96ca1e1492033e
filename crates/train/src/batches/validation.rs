//! The sets of a validation, and their losses.

use crate::preference::PreferenceMetrics;
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

impl ValidationSet {
    /// Sets by name, number of batches and weight, whose batches follow one another from batch `first` on.
    pub(crate) fn in_turn(
        mut first: usize,
        sets: impl IntoIterator<Item = (String, usize, f64)>,
    ) -> Vec<ValidationSet> {
        let set = |(name, count, weight)| {
            let batches = first..first + count;
            first = batches.end;
            ValidationSet {
                name,
                batches,
                weight,
            }
        };
        sets.into_iter().map(set).collect()
    }
}

/// The group that holds batch `index`, and the batch's index in it. Group after group has `counts` batches; batches beyond the last start
/// again from the first.
///
/// # Panics
/// If no group has a batch.
pub(crate) fn locate(index: usize, counts: &[usize]) -> (usize, usize) {
    let mut index = index % counts.iter().sum::<usize>();
    let mut group = 0;
    while index >= counts[group] {
        index -= counts[group];
        group += 1;
    }
    (group, index)
}

/// The losses of a validation; the same on every rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Validation {
    /// The weighted mean over the sets; absent if nothing has a weight.
    pub loss: Option<f64>,
    /// The loss of each set by its name, in the order of the sets.
    pub sets: Vec<(String, f64)>,
    /// Means over all pairs of it, if its rows are of those.
    pub preferences: Option<PreferenceMetrics>,
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
            preferences: None,
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
    fn batches_follow_one_another_and_start_again() {
        let counts = [2, 0, 3];
        let places: Vec<(usize, usize)> = (0..7).map(|index| locate(index, &counts)).collect();
        let once = [(0, 0), (0, 1), (2, 0), (2, 1), (2, 2)];
        assert_eq!(places, [&once[..], &once[..2]].concat());
        let sets = counts.map(|count| (count.to_string(), count, 1.0));
        let sets = ValidationSet::in_turn(4, sets);
        let ranges: Vec<Range<usize>> = sets.into_iter().map(|set| set.batches).collect();
        assert_eq!(ranges, [4..6, 6..6, 6..9]);
    }

    #[test]
    fn nothing_to_validate_on_has_no_loss() {
        assert_eq!(Validation::of(Vec::new()).loss, None);
        assert_eq!(Validation::of(vec![(set("a", 0.0), 1.0)]).loss, None);
    }
}
