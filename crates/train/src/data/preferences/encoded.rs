//! Pairs as tokens: both sequences of each, cut so that a row has room for them.

use super::super::{
    Error, Result, Sample, Tokenizer,
    samples::{Encoded, Given, LossOn, learns, tokens_of},
};

/// The sequences of pairs, a chosen one before its rejected one; without pairs of which an answer has no token in a row.
///
/// # Errors
/// As [`Preferences::new`](super::Preferences::new).
pub(super) fn encoded(
    (name, samples): (&str, &[Sample]),
    tokenizer: &Tokenizer,
    context: usize,
) -> Result<Encoded> {
    let mut given = Vec::with_capacity(2 * samples.len());
    for (index, sample) in samples.iter().enumerate() {
        let number = index + 1;
        let Sample::Pair(pair) = sample else {
            return Err(Error::Samples {
                name: name.to_owned(),
                reason: format!(
                    "sample {number} is no pair, needs `chosen` and `rejected`, as training.objective = \"dpo\" says"
                ),
            });
        };
        given.extend([&pair.chosen, &pair.rejected].map(|sample| Given {
            sample,
            number,
            messages: pair.given,
        }));
    }
    let sequences = tokens_of((name, &given), tokenizer, LossOn::Answers)?;
    let mut encoded = Encoded::default();
    for pair in sequences.chunks(2) {
        let lengths = [0, 1].map(|side: usize| pair[side].0.len().saturating_sub(1));
        let kept = kept(lengths, context);
        let cut = [0, 1].map(|side: usize| {
            let (tokens, counts) = &pair[side];
            let end = tokens.len().min(kept[side] + 1);
            (&tokens[..end], &counts[..end])
        });
        if !cut.iter().all(|(_, counts)| learns(counts)) {
            encoded.num_dropped += 1;
            continue;
        }
        encoded.num_cut += usize::from(kept != lengths);
        for (tokens, counts) in cut {
            encoded.push(tokens, counts);
        }
    }
    Ok(encoded)
}

// The places that a row has for two sequences: half of it each, or what the shorter one leaves.
fn kept([chosen, rejected]: [usize; 2], context: usize) -> [usize; 2] {
    let half = context / 2;
    match chosen + rejected <= context {
        true => [chosen, rejected],
        false if rejected <= half => [context - rejected, rejected],
        false if chosen <= context - half => [chosen, context - chosen],
        false => [context - half, half],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_row_has_room_for_both(chosen in 0usize..40, rejected in 0usize..40, context in 1usize..50) {
            let [one, other] = kept([chosen, rejected], context);
            prop_assert!(one <= chosen && other <= rejected && one + other <= context);
            // Nothing is cut that has room.
            prop_assert!(one + other == context.min(chosen + rejected));
            prop_assert!(one >= chosen.min(context / 2) && other >= rejected.min(context / 2));
        }
    }
}
