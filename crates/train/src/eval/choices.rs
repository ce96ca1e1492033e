//! The accuracy of multiple choice.

use super::{Mean, Question, ScoredSequence, Scorer, split};
use crate::{Error, Result, architecture::Text, data::Tokenizer};
use serde::{Deserialize, Serialize};

/// A question as the model reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncodedQuestion {
    /// The context with each choice, of which the choice is predicted.
    pub sequences: Vec<ScoredSequence>,
    /// The characters of each choice.
    pub characters: Vec<usize>,
    /// The bytes of each choice in UTF-8.
    pub bytes: Vec<usize>,
    /// The index of the right choice.
    pub answer: usize,
}

impl EncodedQuestion {
    /// The question, with `delimiter` between the context and each choice; its length does not count as the choice's. `prefix`
    /// stands before the choices of an empty context.
    ///
    /// # Errors
    /// [`Error::Setting`] with the number of the choice: if it has no token, if it is longer than the model's context, and for
    /// tokens outside the vocabulary; those of the tokenizer.
    pub fn new(
        question: &Question,
        (tokenizer, text): (&Tokenizer, Text),
        delimiter: &str,
        prefix: Option<u32>,
    ) -> Result<EncodedQuestion> {
        let sequence = |(index, choice): (usize, &String)| {
            let continuation = format!("{delimiter}{choice}");
            let parts = split(tokenizer, &question.context, &continuation, prefix);
            let sequence = parts.and_then(|(given, rest)| ScoredSequence::new(&given, &rest, text));
            sequence.map_err(|error| match error {
                Error::Setting { key, found, needed } => {
                    Error::setting(format!("choice {index}: {key}"), found, needed)
                }
                error => error,
            })
        };
        let each = question.choices.iter().enumerate();
        Ok(EncodedQuestion {
            sequences: each.map(sequence).collect::<Result<_>>()?,
            characters: question
                .choices
                .iter()
                .map(|choice| choice.chars().count())
                .collect(),
            bytes: question.choices.iter().map(String::len).collect(),
            answer: question.answer,
        })
    }
}

/// How likely the choices of a question are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QuestionScore {
    /// The logarithm of the probability of each choice after the context, in nats.
    pub log_likelihoods: Vec<f64>,
    /// Whether each choice is what the model itself continues with if it always takes the most likely token.
    pub is_greedy: Vec<bool>,
    /// The tokens of each choice.
    pub tokens: Vec<usize>,
    /// The index of the right choice.
    pub answer: usize,
    /// The most likely choice; here and below, the first of several.
    pub chosen: usize,
    /// The choice with the largest log-likelihood per character.
    pub chosen_per_character: usize,
    /// The choice with the largest log-likelihood per byte.
    pub chosen_per_byte: usize,
}

/// The accuracy over questions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChoiceSummary {
    /// The share of questions whose most likely choice is the right one.
    pub accuracy: Mean,
    /// The same by the log-likelihood per character.
    pub accuracy_per_character: Mean,
    /// The same by the log-likelihood per byte.
    pub accuracy_per_byte: Mean,
    /// The share of questions whose right choice is predicted greedily.
    pub greedy: Mean,
}

impl ChoiceSummary {
    /// The summary of these questions.
    pub fn of(scores: &[QuestionScore]) -> ChoiceSummary {
        let right = |chosen: fn(&QuestionScore) -> usize| {
            Mean::share(scores.iter().map(|score| chosen(score) == score.answer))
        };
        ChoiceSummary {
            accuracy: right(|score| score.chosen),
            accuracy_per_character: right(|score| score.chosen_per_character),
            accuracy_per_byte: right(|score| score.chosen_per_byte),
            greedy: Mean::share(scores.iter().map(|score| score.is_greedy[score.answer])),
        }
    }
}

/// The scores of questions, in their order. Calls `progress` with the number of choices that were scored since the last call.
/// Collective.
///
/// # Errors
/// Those of [`Scorer::score`].
pub fn score_questions(
    scorer: &Scorer<'_>,
    questions: &[EncodedQuestion],
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<QuestionScore>> {
    let sequences = questions
        .iter()
        .flat_map(|question| question.sequences.clone());
    let sequences: Vec<ScoredSequence> = sequences.collect();
    let mut scores = scorer.score(&sequences, progress)?.into_iter();
    let score = |question: &EncodedQuestion| {
        let own: Vec<_> = scores.by_ref().take(question.sequences.len()).collect();
        let log_likelihoods: Vec<f64> = own.iter().map(|score| score.log_likelihood()).collect();
        let per = |lengths: &[usize]| {
            let pairs = log_likelihoods.iter().zip(lengths);
            first_largest(pairs.map(|(score, length)| score / *length as f64))
        };
        QuestionScore {
            is_greedy: own.iter().map(|score| score.is_greedy).collect(),
            tokens: own
                .iter()
                .map(|score| score.log_likelihoods.len())
                .collect(),
            answer: question.answer,
            chosen: first_largest(log_likelihoods.iter().copied()),
            chosen_per_character: per(&question.characters),
            chosen_per_byte: per(&question.bytes),
            log_likelihoods,
        }
    };
    Ok(questions.iter().map(score).collect())
}

fn first_largest(numbers: impl Iterator<Item = f64>) -> usize {
    let larger = |best: (usize, f64), next: (usize, f64)| if next.1 > best.1 { next } else { best };
    numbers
        .enumerate()
        .reduce(larger)
        .map_or(0, |(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: Text = Text {
        context: 8,
        vocabulary: 256,
    };

    fn question(choices: &[&str]) -> Question {
        Question {
            line: 1,
            context: "What is it? ".into(),
            choices: choices.iter().map(|choice| (*choice).to_owned()).collect(),
            answer: 0,
        }
    }

    #[test]
    fn the_first_of_several_is_chosen() {
        assert_eq!(first_largest([-2.0, -1.0, -1.0].into_iter()), 1);
        assert_eq!(first_largest([f64::NEG_INFINITY; 2].into_iter()), 0);
    }

    #[test]
    fn a_long_context_loses_its_beginning_and_a_long_choice_is_refused() {
        let model = (&Tokenizer::bytes(), TEXT);
        let encoded = EncodedQuestion::new(&question(&["é", "bcd"]), model, "", None).unwrap();
        assert_eq!(
            (&encoded.characters[..], &encoded.bytes[..]),
            (&[1, 3][..], &[2, 3][..])
        );
        // The space at the end of the context is predicted too.
        assert_eq!(encoded.sequences[1].predicted(), b" bcd".map(u32::from));
        assert_eq!(encoded.sequences[1].inputs(), b"s it? bc".map(u32::from));
        let error = EncodedQuestion::new(&question(&["a", "12345678"]), model, "", None);
        assert_eq!(
            error.unwrap_err().to_string(),
            "choice 1: tokens to predict: found 9, needs at most 8, the context of the model"
        );
    }

    #[test]
    fn accuracies_count_the_right_choices() {
        let score = |chosen: [usize; 3], answer, greedy| QuestionScore {
            log_likelihoods: vec![-1.0, -2.0],
            is_greedy: vec![greedy, false],
            tokens: vec![1, 1],
            answer,
            chosen: chosen[0],
            chosen_per_character: chosen[1],
            chosen_per_byte: chosen[2],
        };
        let scores = [score([0, 1, 1], 0, true), score([0, 1, 0], 1, true)];
        let summary = ChoiceSummary::of(&scores);
        let means = [
            summary.accuracy,
            summary.accuracy_per_character,
            summary.accuracy_per_byte,
            summary.greedy,
        ];
        assert_eq!(means.map(|mean| mean.mean), [0.5, 0.5, 0.0, 0.5]);
        assert_eq!(summary.accuracy.standard_error, Some(0.5));
    }
}
