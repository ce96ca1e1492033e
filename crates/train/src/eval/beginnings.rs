//! Sequences that begin alike, such as a question with each of its choices: what they share is computed once.

use super::ScoredSequence;

/// The fewest tokens that are worth a pass of their own.
const LEAST: usize = 16;

/// Sequences whose first inputs are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Beginning {
    /// The sequences, by their indices.
    pub(super) members: Vec<usize>,
    /// Tokens that all of them read first, none of which is before a token that is predicted; 0 for a sequence alone.
    pub(super) shared: usize,
}

impl Beginning {
    fn alone(index: usize) -> Beginning {
        Beginning {
            members: vec![index],
            shared: 0,
        }
    }
}

/// All sequences, as neighbours that begin alike, of which at most `most` are together.
///
/// A sequence joins its neighbours if they then save no fewer tokens than without it: examples that stand before every question do
/// not part the choices of one.
pub(super) fn beginnings(sequences: &[ScoredSequence], most: usize) -> Vec<Beginning> {
    let mut all: Vec<Beginning> = Vec::new();
    for index in 0..sequences.len() {
        let joined = all.last().filter(|last| last.members.len() < most);
        let joined = joined.and_then(|last| {
            let shared = shared([&sequences[last.members[0]], &sequences[index]]);
            let shared = match last.members.len() {
                1 => shared,
                _ => shared.min(last.shared),
            };
            let saved = last.shared * (last.members.len() - 1);
            (shared >= LEAST && shared * last.members.len() >= saved).then_some(shared)
        });
        match (joined, all.last_mut()) {
            (Some(shared), Some(last)) => {
                last.members.push(index);
                last.shared = shared;
            }
            _ => all.push(Beginning::alone(index)),
        }
    }
    all
}

// Inputs with which both begin. Those before the first predicted token of either stay: their logits are needed.
fn shared(both: [&ScoredSequence; 2]) -> usize {
    let pairs = both[0].inputs().iter().zip(both[1].inputs());
    let same = pairs.take_while(|(one, other)| one == other).count();
    let unread = both.map(|one| one.inputs().len() - one.predicted().len());
    same.min(unread[0]).min(unread[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::Text;

    const TEXT: Text = Text {
        context: 64,
        vocabulary: 100,
    };

    // The first tokens of a question, which follow `before`, with choices of these tokens.
    fn question(before: &[u32], first: u32, choices: &[&[u32]]) -> Vec<ScoredSequence> {
        let given: Vec<u32> = before.iter().copied().chain(first..first + 20).collect();
        let sequence = |choice: &&[u32]| ScoredSequence::new(&given, choice, TEXT).unwrap();
        choices.iter().map(sequence).collect()
    }

    fn found(sequences: &[ScoredSequence], most: usize) -> Vec<(Vec<usize>, usize)> {
        let all = beginnings(sequences, most).into_iter();
        all.map(|one| (one.members, one.shared)).collect()
    }

    #[test]
    fn choices_of_a_question_are_together_but_for_the_token_before_them() {
        let first = question(&[], 1, &[&[50], &[51, 52], &[50, 53]]);
        let second = question(&[], 30, &[&[50], &[51]]);
        let all = [first, second].concat();
        assert_eq!(found(&all, 8), [(vec![0, 1, 2], 19), (vec![3, 4], 19)]);
        assert_eq!(
            found(&all, 2),
            [(vec![0, 1], 19), (vec![2], 0), (vec![3, 4], 19)]
        );
        assert_eq!(found(&all, 1).len(), 5);
    }

    #[test]
    fn few_tokens_are_not_shared() {
        let short = |choice| ScoredSequence::new(&[1, 2, 3], &[choice], TEXT).unwrap();
        assert_eq!(
            found(&[short(4), short(5)], 8),
            [(vec![0], 0), (vec![1], 0)]
        );
        // All inputs but those before predicted tokens are the same.
        let given: Vec<u32> = (0..20).collect();
        let long = ScoredSequence::new(&given, &given[..10], TEXT).unwrap();
        assert_eq!(found(&[long.clone(), long], 8), [(vec![0, 1], 19)]);
        let whole: Vec<u32> = (0..64).collect();
        let whole = ScoredSequence::new(&[9], &whole, TEXT).unwrap();
        assert_eq!(found(&[whole.clone(), whole], 8).len(), 2);
    }

    #[test]
    fn examples_before_every_question_join_questions_where_that_saves_more() {
        let examples: Vec<u32> = (60..90).collect();
        let choices: [&[u32]; 2] = [&[50], &[51]];
        let of = |before: &[u32]| {
            [
                question(before, 1, &choices),
                question(before, 30, &choices),
            ]
            .concat()
        };
        assert_eq!(found(&of(&examples), 8), [(vec![0, 1, 2, 3], 30)]);
        assert_eq!(found(&of(&examples[..4]), 8).len(), 2);
    }
}
