//! The part of a sequence from which its next token is predicted.

/// The place where the window of a sequence of `tokens` tokens begins, if a model reads at most `context` of them.
///
/// The window grows until it is full. Then the older half of it is dropped, and it grows again. So it holds more than half of
/// `context`, and what is computed for it is computed anew once for every `context / 2` tokens. It depends on nothing but
/// the two numbers: with and without kept keys, and however long the prompt is, the same tokens are read.
pub(super) fn start(tokens: usize, context: usize) -> usize {
    let dropped = context.div_ceil(2).max(1);
    tokens.saturating_sub(context).div_ceil(dropped) * dropped
}

#[cfg(test)]
mod tests {
    use super::start;

    #[test]
    fn a_full_window_loses_its_older_half() {
        let starts = (0..=13).map(|tokens| start(tokens, 6));
        assert_eq!(
            starts.collect::<Vec<_>>(),
            [0, 0, 0, 0, 0, 0, 0, 3, 3, 3, 6, 6, 6, 9]
        );
    }

    #[test]
    fn a_window_holds_more_than_half_of_the_context_and_never_more_than_all() {
        for context in 1..20 {
            for tokens in 1..100 {
                let window = tokens - start(tokens, context);
                assert!(window <= context, "{tokens} of {context}");
                assert!(
                    window >= tokens.min(context / 2 + 1),
                    "{tokens} of {context}"
                );
            }
        }
    }
}
