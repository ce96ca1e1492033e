//! Windows over a document, in which every token is predicted once.

use super::ScoredSequence;
use crate::{Result, architecture::Text, generate::within};

/// The windows of a document's tokens, each token predicted in one of them.
///
/// The first window predicts up to `text.context` tokens, the first of them from `prefix` alone. Each later one predicts the next
/// `stride` tokens, or those that are left, after as many earlier tokens as fit. So a token of a later window is predicted from
/// at least `context - stride + 1` tokens. With a stride of the context, windows share one token; with a stride of 1, each token
/// has the longest context there is, at the cost of a pass for each.
///
/// # Errors
/// [`Error::Setting`](crate::Error::Setting) for a stride of 0 or beyond the context, and for a token outside the vocabulary.
pub fn rolling_windows(
    tokens: &[u32],
    prefix: u32,
    text: Text,
    stride: usize,
) -> Result<impl Iterator<Item = Result<ScoredSequence>>> {
    within("stride", stride, 1, text.context)?;
    let mut begin = 0;
    let window = move || {
        let step = if begin == 0 { text.context } else { stride };
        let end = tokens.len().min(begin + step);
        let predicted = begin..end;
        begin = end;
        (!predicted.is_empty()).then(|| {
            let given = match predicted.start {
                0 => &[prefix][..],
                start => &tokens[end.saturating_sub(text.context + 1)..start],
            };
            ScoredSequence::new(given, &tokens[predicted], text)
        })
    };
    Ok(std::iter::from_fn(window))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: u32 = 999;

    fn windows(count: u32, context: usize, stride: usize) -> Vec<(Vec<u32>, Vec<u32>)> {
        let tokens: Vec<u32> = (0..count).collect();
        let text = Text {
            context,
            vocabulary: 1000,
        };
        let windows = rolling_windows(&tokens, PREFIX, text, stride).unwrap();
        let parts = windows.map(|window| {
            let window = window.unwrap();
            (window.inputs().to_vec(), window.predicted().to_vec())
        });
        parts.collect()
    }

    #[test]
    fn windows_overlap_by_what_the_stride_leaves() {
        let pair = |inputs: &[u32], predicted: &[u32]| (inputs.to_vec(), predicted.to_vec());
        assert_eq!(
            windows(5, 3, 3),
            [pair(&[PREFIX, 0, 1], &[0, 1, 2]), pair(&[1, 2, 3], &[3, 4])]
        );
        assert_eq!(
            windows(6, 3, 2),
            [
                pair(&[PREFIX, 0, 1], &[0, 1, 2]),
                pair(&[1, 2, 3], &[3, 4]),
                pair(&[2, 3, 4], &[5])
            ]
        );
        assert_eq!(windows(2, 3, 1), [pair(&[PREFIX, 0], &[0, 1])]);
        assert_eq!(windows(0, 3, 1), []);
    }

    #[test]
    fn every_token_is_predicted_once_after_those_before_it() {
        for context in 1..7 {
            for stride in 1..=context {
                for count in 0..20 {
                    let windows = windows(count, context, stride);
                    let predicted: Vec<u32> =
                        windows.iter().flat_map(|window| window.1.clone()).collect();
                    assert_eq!(predicted, (0..count).collect::<Vec<_>>());
                    for (index, (inputs, predicted)) in windows.iter().enumerate() {
                        assert!(inputs.len() <= context);
                        let given = inputs.len() + 1 - predicted.len();
                        let before = (predicted[0] as usize + 1).min(context - stride + 1);
                        assert!(index == 0 || given >= before, "{context} {stride} {count}");
                        let all = [inputs, &predicted[predicted.len() - 1..]].concat();
                        let run = if all[0] == PREFIX { &all[1..] } else { &all };
                        assert!(run.windows(2).all(|pair| pair[0] + 1 == pair[1]));
                    }
                }
            }
        }
    }

    #[test]
    fn a_stride_beyond_the_context_is_refused() {
        let text = Text {
            context: 4,
            vocabulary: 10,
        };
        for stride in [0, 5] {
            let error = rolling_windows(&[1], 0, text, stride)
                .map(drop)
                .unwrap_err();
            let needed = format!("stride: found {stride}, needs a number from 1 to 4");
            assert_eq!(error.to_string(), needed);
        }
    }
}
