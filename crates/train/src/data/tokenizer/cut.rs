//! Where a long text may be cut so that its parts have the tokens of the whole.
//!
//! Tokenizers of files are given long texts in parts, because they hold many times a text in memory. What a tokenizer does at
//! a border is its own affair: many join white space to a neighbour, and some begin every text with a space. So a border is
//! tried: the text around it is encoded whole and in two.

use super::{Result, Tokenizer, TokenizerKind};

/// The longest part of a text that a tokenizer of a file is given at once.
pub(in crate::data) const PIECE_BYTES: usize = 1 << 18;

/// Bytes on either side of a border that are encoded to try it.
pub(in crate::data) const NEIGHBOURHOOD: usize = 256;

/// Line ends that are tried before a text is cut anywhere.
const MOST_TRIES: usize = 32;

/// A border in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::data) struct Cut {
    /// The position of its first byte behind the border.
    pub(in crate::data) at: usize,
    /// Whether the two parts have the tokens of the whole.
    pub(in crate::data) is_exact: bool,
}

impl Tokenizer {
    /// A border within the first `limit` bytes (at least 4, the longest character) of a longer text, as far behind as it goes.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub(in crate::data) fn cut(&self, text: &str, limit: usize) -> Result<Cut> {
        match &self.kind {
            TokenizerKind::Json(json) => {
                cut_at_lines(text, limit, |piece| json.encode_piece(piece))
            }
            TokenizerKind::Ids { .. } => Ok(cut_at_space(text, limit)),
            TokenizerKind::Bytes | TokenizerKind::Characters(_) => Ok(Cut {
                at: floor(text, limit),
                is_exact: true,
            }),
        }
    }
}

/// The last line end within `limit` bytes at which the text may be cut; if there is none, the last line end, or the last
/// character.
pub(super) fn cut_at_lines(
    text: &str,
    limit: usize,
    encode: impl Fn(&str) -> Result<Vec<u32>>,
) -> Result<Cut> {
    let line_ends = || {
        let bytes = text.as_bytes()[..limit].iter().enumerate().rev();
        bytes
            .filter(|(_, byte)| **byte == b'\n')
            .map(|(at, _)| at + 1)
    };
    for at in line_ends().take(MOST_TRIES) {
        let before = &text[ceil(text, at.saturating_sub(NEIGHBOURHOOD))..at];
        let behind = &text[at..floor(text, at + NEIGHBOURHOOD)];
        let mut parts = encode(before)?;
        parts.extend(encode(behind)?);
        if parts == encode(&[before, behind].concat())? {
            return Ok(Cut { at, is_exact: true });
        }
    }
    Ok(Cut {
        at: line_ends().next().unwrap_or_else(|| floor(text, limit)),
        is_exact: false,
    })
}

// The last position up to `at` that does not split a character, and the first from there on.
fn floor(text: &str, at: usize) -> usize {
    let positions = (0..=at.min(text.len())).rev();
    let mut whole = positions.filter(|position| text.is_char_boundary(*position));
    whole.next().unwrap_or(0)
}

fn ceil(text: &str, at: usize) -> usize {
    let mut whole = (at..text.len()).filter(|position| text.is_char_boundary(*position));
    whole.next().unwrap_or(text.len())
}

// Numbers are cut between two of them.
fn cut_at_space(text: &str, limit: usize) -> Cut {
    let space = text.as_bytes()[..limit]
        .iter()
        .rposition(u8::is_ascii_whitespace);
    Cut {
        at: space.map_or_else(|| floor(text, limit), |space| space + 1),
        is_exact: space.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As GPT-2's: of several white spaces the last belongs to the word behind it.
    fn encode(text: &str) -> Result<Vec<u32>> {
        let mut tokens = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let spaces = rest.len() - rest.trim_start().len();
            let taken = match spaces {
                0 => rest.find(char::is_whitespace).unwrap_or(rest.len()),
                1 => 1,
                _ if spaces == rest.len() => spaces,
                _ => spaces - 1,
            };
            tokens.push(first as u32 * 1000 + taken as u32);
            rest = &rest[taken..];
        }
        Ok(tokens)
    }

    proptest! {
        #[test]
        fn parts_have_the_tokens_of_the_whole(text in "[ab\n]{20,200}", limit in 4usize..20) {
            let cut = cut_at_lines(&text, limit, encode).unwrap();
            prop_assert!(cut.at <= limit);
            if cut.is_exact {
                let parts = [encode(&text[..cut.at]).unwrap(), encode(&text[cut.at..]).unwrap()].concat();
                prop_assert_eq!(parts, encode(&text).unwrap());
            }
        }
    }

    #[test]
    fn a_line_end_that_would_change_tokens_is_passed_over() {
        let cut = |text| cut_at_lines(text, 8, encode).unwrap();
        assert_eq!(
            cut("ab\ncd\n\nefgh"),
            Cut {
                at: 6,
                is_exact: true
            }
        );
        assert_eq!(
            cut("ab\ncd\nefgh"),
            Cut {
                at: 6,
                is_exact: true
            }
        );
        assert_eq!(
            cut("abcdefgh\ni"),
            Cut {
                at: 8,
                is_exact: false
            }
        );
        let prefixed = |text: &str| encode(&format!("_{text}"));
        let cut = cut_at_lines("ab\ncd\nefgh", 8, prefixed).unwrap();
        assert_eq!(
            cut,
            Cut {
                at: 6,
                is_exact: false
            }
        );
    }

    #[test]
    fn what_is_not_of_a_file_is_cut_anywhere_but_in_a_character_or_number() {
        let cut = |tokenizer: Tokenizer, text| tokenizer.cut(text, 5).unwrap();
        assert_eq!(cut(Tokenizer::bytes(), "abcd\u{e9}f").at, 4);
        assert_eq!(
            cut(Tokenizer::ids(99), "1 23 45"),
            Cut {
                at: 5,
                is_exact: true
            }
        );
        assert_eq!(cut(Tokenizer::ids(99), "1 2345 6").at, 2);
        assert!(!cut(Tokenizer::ids(99), "123456").is_exact);
    }
}
