//! Numbers written as text: the text form of tokens without a tokenizer.

use crate::data::{Error, Result};

/// Parses numbers separated by white space.
pub(super) fn encode(text: &str, vocabulary_size: usize) -> Result<Vec<u32>> {
    text.split_whitespace()
        .enumerate()
        .map(|(position, word)| {
            let token: u32 = word.parse().map_err(|_| no_number(word))?;
            match (token as usize) < vocabulary_size {
                true => Ok(token),
                false => Err(Error::TokenRange {
                    name: "text".into(),
                    token,
                    position,
                    vocabulary_size,
                }),
            }
        })
        .collect()
}

/// Writes tokens separated by spaces.
pub(super) fn decode(tokens: &[u32]) -> String {
    tokens
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join(" ")
}

fn no_number(word: &str) -> Error {
    let reason = format!("{word:?} is not a token number, and the run has no tokenizer for text");
    Error::Tokenizer {
        name: "ids".into(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_written() {
        assert_eq!(encode(" 3 0\n12", 13).unwrap(), [3, 0, 12]);
        assert_eq!(decode(&[3, 0, 12]), "3 0 12");
    }

    #[test]
    fn other_text_and_large_numbers_are_refused() {
        let error = encode("3 four", 10).unwrap_err().to_string();
        assert!(
            error.starts_with("data: tokenizer ids: \"four\" is not a token number"),
            "{error}"
        );
        let error = encode("3 10", 10).unwrap_err().to_string();
        assert_eq!(
            error,
            "data: text: token 10 at position 1 is outside the vocabulary of 10; set data.tokenizer.ids to the number of tokens that the ids are of, as in --set data.tokenizer.ids=50257 for GPT-2's"
        );
    }
}
