//! A sequence whose last tokens are predicted.

use crate::{Error, Result, architecture::Text};
use serde::{Deserialize, Serialize};

/// Tokens, of which the last ones are predicted, each from all before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScoredSequence {
    tokens: Vec<u32>,
    num_predicted: usize,
}

impl ScoredSequence {
    /// The sequence `given`, which the model reads, and after it `predicted`.
    ///
    /// If both are longer than a model of this context reads, `given` loses its beginning. The model reads all tokens but the
    /// last one, so up to `text.context` tokens can be predicted.
    ///
    /// # Errors
    /// [`Error::Setting`] with the numbers: if `given` or `predicted` is empty, if `predicted` is longer than the context, and for
    /// a token outside the vocabulary.
    pub fn new(given: &[u32], predicted: &[u32], text: Text) -> Result<ScoredSequence> {
        let refuse =
            |key: &str, found: String, needed: String| Err(Error::setting(key, found, needed));
        if given.is_empty() || predicted.is_empty() {
            let found = format!("{} given, {} predicted", given.len(), predicted.len());
            return refuse("tokens", found, "at least 1 of each".into());
        }
        if predicted.len() > text.context {
            let needed = format!("at most {}, the context of the model", text.context);
            return refuse("tokens to predict", predicted.len().to_string(), needed);
        }
        in_vocabulary("tokens", given, text)?;
        in_vocabulary("tokens", predicted, text)?;
        let both = given.iter().chain(predicted);
        let dropped = (given.len() + predicted.len()).saturating_sub(text.context + 1);
        Ok(ScoredSequence {
            tokens: both.skip(dropped).copied().collect(),
            num_predicted: predicted.len(),
        })
    }

    /// The tokens that the model reads: all but the last one.
    pub fn inputs(&self) -> &[u32] {
        &self.tokens[..self.tokens.len() - 1]
    }

    /// The tokens that are predicted. The model predicts the last of them after its last input.
    pub fn predicted(&self) -> &[u32] {
        &self.tokens[self.tokens.len() - self.num_predicted..]
    }
}

/// Checks that a model has these tokens.
///
/// # Errors
/// [`Error::Setting`] with the first that it has not.
pub(super) fn in_vocabulary(key: &str, tokens: &[u32], text: Text) -> Result<()> {
    match tokens
        .iter()
        .find(|token| **token as usize >= text.vocabulary)
    {
        None => Ok(()),
        Some(token) => {
            let needed = format!("one below the vocabulary of {}", text.vocabulary);
            Err(Error::setting(key, format_args!("token {token}"), needed))
        }
    }
}

/// How likely the predicted tokens of a sequence are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SequenceScore {
    /// The natural logarithm of the probability of each predicted token, in their order.
    pub log_likelihoods: Vec<f64>,
    /// Whether each predicted token is the most likely one, and of several the first.
    pub is_greedy: bool,
}

impl SequenceScore {
    /// The logarithm of the probability of all predicted tokens, in nats.
    pub fn log_likelihood(&self) -> f64 {
        self.log_likelihoods.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: Text = Text {
        context: 4,
        vocabulary: 10,
    };

    #[test]
    fn a_long_sequence_loses_its_beginning() {
        let sequence = ScoredSequence::new(&[1, 2], &[3], TEXT).unwrap();
        assert_eq!(
            (sequence.inputs(), sequence.predicted()),
            (&[1, 2][..], &[3][..])
        );
        let sequence = ScoredSequence::new(&[1, 2, 3, 4], &[5, 6, 7], TEXT).unwrap();
        assert_eq!(sequence.inputs(), [3, 4, 5, 6]);
        assert_eq!(sequence.predicted(), [5, 6, 7]);
        let sequence = ScoredSequence::new(&[1, 2], &[5, 6, 7, 8], TEXT).unwrap();
        assert_eq!(sequence.inputs(), [2, 5, 6, 7]);
    }

    #[test]
    fn sequences_that_cannot_be_are_refused_with_their_numbers() {
        let refused = |given: &[u32], predicted: &[u32]| {
            ScoredSequence::new(given, predicted, TEXT)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            refused(&[], &[1]),
            "tokens: found 0 given, 1 predicted, needs at least 1 of each"
        );
        assert_eq!(
            refused(&[1], &[1; 5]),
            "tokens to predict: found 5, needs at most 4, the context of the model"
        );
        assert_eq!(
            refused(&[1], &[10]),
            "tokens: found token 10, needs one below the vocabulary of 10"
        );
    }
}
