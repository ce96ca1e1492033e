//! Means over the pairs of a batch.

use crate::metrics::number_or_nan;
use serde::{Deserialize, Serialize};

/// Means over pairs, under the names that the library TRL has for them. A reward is beta times the log-probability of a sequence
/// beyond that of the reference model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PreferenceMetrics {
    /// Rewards of chosen sequences.
    #[serde(rename = "rewards/chosen", deserialize_with = "number_or_nan")]
    pub chosen_reward: f64,
    /// Rewards of rejected sequences.
    #[serde(rename = "rewards/rejected", deserialize_with = "number_or_nan")]
    pub rejected_reward: f64,
    /// Fraction of pairs whose chosen sequence has the larger reward.
    #[serde(rename = "rewards/accuracies", deserialize_with = "number_or_nan")]
    pub accuracy: f64,
    /// Reward of the chosen sequence above that of the rejected one.
    #[serde(rename = "rewards/margins", deserialize_with = "number_or_nan")]
    pub margin: f64,
    /// Log-probabilities of chosen sequences, in nats.
    #[serde(rename = "logps/chosen", deserialize_with = "number_or_nan")]
    pub chosen_log_probability: f64,
    /// Log-probabilities of rejected sequences, in nats.
    #[serde(rename = "logps/rejected", deserialize_with = "number_or_nan")]
    pub rejected_log_probability: f64,
}

impl PreferenceMetrics {
    /// The metrics with their names.
    pub fn named(&self) -> [(&'static str, f64); 6] {
        [
            ("rewards/chosen", self.chosen_reward),
            ("rewards/rejected", self.rejected_reward),
            ("rewards/accuracies", self.accuracy),
            ("rewards/margins", self.margin),
            ("logps/chosen", self.chosen_log_probability),
            ("logps/rejected", self.rejected_log_probability),
        ]
    }
}

/// Sums over pairs, from which the means follow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PairSums {
    pairs: f64,
    sums: PreferenceMetrics,
}

impl PairSums {
    /// Adds what rows [report](parallel::layers::Loss::pairs) of their pairs, each in `width` numbers.
    pub(crate) fn add(&mut self, rows: &[f64], width: usize) {
        for row in rows.chunks(width.max(1)) {
            let [log_probabilities, rewards, labels] = thirds(row);
            let pairs = log_probabilities.chunks(2).zip(rewards.chunks(2));
            for ((log_probabilities, rewards), labels) in pairs.zip(labels.chunks(2)) {
                if labels.iter().any(|label| *label > 0.0) {
                    self.add_pair(log_probabilities, rewards);
                }
            }
        }
    }

    fn add_pair(&mut self, log_probabilities: &[f64], rewards: &[f64]) {
        let sums = &mut self.sums;
        self.pairs += 1.0;
        sums.chosen_reward += rewards[0];
        sums.rejected_reward += rewards[1];
        sums.accuracy += f64::from(rewards[0] > rewards[1]);
        sums.margin += rewards[0] - rewards[1];
        sums.chosen_log_probability += log_probabilities[0];
        sums.rejected_log_probability += log_probabilities[1];
    }

    /// The means, if there is a pair.
    pub(crate) fn means(&self) -> Option<PreferenceMetrics> {
        let (sums, mean) = (&self.sums, |sum: f64| sum / self.pairs);
        (self.pairs > 0.0).then(|| PreferenceMetrics {
            chosen_reward: mean(sums.chosen_reward),
            rejected_reward: mean(sums.rejected_reward),
            accuracy: mean(sums.accuracy),
            margin: mean(sums.margin),
            chosen_log_probability: mean(sums.chosen_log_probability),
            rejected_log_probability: mean(sums.rejected_log_probability),
        })
    }
}

/// Log-probabilities, rewards and labels of a row.
pub(crate) fn thirds(row: &[f64]) -> [&[f64]; 3] {
    let third = row.len() / 3;
    [0, 1, 2].map(|part| &row[part * third..][..third])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_that_are_none_do_not_count() {
        let mut sums = PairSums::default();
        assert_eq!(sums.means(), None);
        let one = [
            -3.0, -5.0, 7.0, 7.0, 0.5, -0.25, 9.0, 9.0, 0.9, 0.1, 0.0, 0.0,
        ];
        let other = [
            -1.0, -2.0, -4.0, -4.0, 0.0, 1.0, 2.0, 2.0, 1.0, 0.0, 1.0, 0.0,
        ];
        sums.add(&[one, other].concat(), 12);
        let found = sums.means().unwrap();
        let expected = [
            2.5 / 3.0,
            2.75 / 3.0,
            1.0 / 3.0,
            -0.25 / 3.0,
            -8.0 / 3.0,
            -11.0 / 3.0,
        ];
        assert_eq!(found.named().map(|(_, number)| number), expected);
        let text = serde_json::to_string(&found).unwrap();
        assert!(text.starts_with("{\"rewards/chosen\":0.8333"), "{text}");
        let found: PreferenceMetrics =
            serde_json::from_str(&text.replace("-2.6666666666666665", "null")).unwrap();
        assert!(found.chosen_log_probability.is_nan());
    }
}
