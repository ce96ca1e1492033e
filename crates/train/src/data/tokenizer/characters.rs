//! One token for each character of a text.

use std::collections::BTreeSet;

use super::SEPARATOR;
use crate::data::{Error, Result};

/// Distinct characters in the order of Unicode; a character's index is its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CharacterTable(Vec<char>);

impl CharacterTable {
    /// The characters of `documents`, and of the separator if there are several documents.
    pub(super) fn of(documents: &[String]) -> CharacterTable {
        let separator = if documents.len() > 1 { SEPARATOR } else { "" };
        let characters: BTreeSet<char> = documents
            .iter()
            .flat_map(|document| document.chars())
            .chain(separator.chars())
            .collect();
        CharacterTable(characters.into_iter().collect())
    }

    /// The table written by [`CharacterTable::text`].
    pub(super) fn from_text(text: &str) -> Result<CharacterTable> {
        let characters: Vec<char> = text.chars().collect();
        if characters.windows(2).all(|pair| pair[0] < pair[1]) {
            return Ok(CharacterTable(characters));
        }
        let reason = format!(
            "its table of {} characters is not sorted or names one twice",
            characters.len()
        );
        Err(Error::Tokenizer {
            name: "characters".into(),
            reason,
        })
    }

    /// All characters in a row.
    pub(super) fn text(&self) -> String {
        self.0.iter().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>> {
        text.chars()
            .enumerate()
            .map(|(position, character)| self.token(position, character))
            .collect()
    }

    pub(super) fn decode(&self, tokens: &[u32]) -> String {
        let character = |&token: &u32| self.0.get(token as usize).copied();
        tokens
            .iter()
            .map(|token| character(token).unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect()
    }

    fn token(&self, position: usize, character: char) -> Result<u32> {
        match self.0.binary_search(&character) {
            Ok(place) => Ok(place as u32),
            Err(_) => Err(Error::UnknownCharacter {
                character,
                position,
                table_size: self.0.len(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_follow_unicode() {
        let table = CharacterTable::of(&["hallo é".to_owned()]);
        assert_eq!(table.text(), " ahloé");
        assert_eq!(table.encode("aé ").unwrap(), [1, 5, 0]);
        assert_eq!(table.decode(&[1, 5, 0, 6]), "aé \u{fffd}");
    }

    #[test]
    fn an_unknown_character_is_placed() {
        let error = CharacterTable::of(&["abc".to_owned()])
            .encode("abx")
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "data: character 'x' at position 2 is none of the 3 in the tokenizer's table"
        );
    }

    #[test]
    fn a_table_is_restored_or_refused() {
        let table = CharacterTable::of(&["zyx".to_owned(), "a".to_owned()]);
        assert_eq!(table.text(), "\naxyz");
        assert_eq!(CharacterTable::from_text(&table.text()).unwrap(), table);
        let error = CharacterTable::from_text("aba").unwrap_err().to_string();
        assert!(error.contains("table of 3 characters"), "{error}");
    }
}
