//! Byte-level BPE with the pattern of GPT-2, faster than the library that reads its file.
//!
//! The library keeps, for every word, where it lies in the text and how the text was changed; training needs only the tokens. So the
//! text is cut into words here, as the pattern of GPT-2 cuts it, and the tokens of a word come from a table of those that were seen,
//! or from the library's model. Any other tokenizer, and a text with a token that the file adds, is left to the library.
//!
//! `fascicle data tokenize` compares what was written with the library's own tokens of its samples.

use std::collections::HashMap;

use tokenizers::{
    Model, ModelWrapper, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
    PreTokenizerWrapper, Tokenizer,
};

/// The most words of the table, and the longest.
const MOST_WORDS: usize = 1 << 16;
const MOST_WORD_BYTES: usize = 64;

/// Ends of English words that are words of their own.
const ENDINGS: [&str; 7] = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];

/// An encoder for one thread.
pub(super) struct FastEncoder<'t> {
    tokenizer: &'t Tokenizer,
    /// Tokens that are found in a text before it is cut.
    added: Vec<String>,
    begins_added: [bool; 256],
    /// The letter that stands for a byte in the vocabulary.
    letters: Vec<char>,
    /// The tokens of a word, as a range of `tokens`.
    words: HashMap<Box<str>, (u32, u32)>,
    tokens: Vec<u32>,
    /// What the library takes characters beyond ASCII for.
    classes: HashMap<char, Class>,
    spelt: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Space,
    Letter,
    Number,
    Other,
}

impl<'t> FastEncoder<'t> {
    /// An encoder for this tokenizer, if it is of the kind.
    pub(super) fn new(tokenizer: &'t Tokenizer) -> Option<FastEncoder<'t>> {
        let is_plain = match (tokenizer.get_model(), tokenizer.get_pre_tokenizer()) {
            (ModelWrapper::BPE(bpe), Some(PreTokenizerWrapper::ByteLevel(level))) => {
                let draws = bpe.dropout.is_some_and(|dropout| dropout > 0.0);
                !draws && level.use_regex && !level.add_prefix_space
            }
            _ => false,
        };
        if !is_plain || tokenizer.get_normalizer().is_some() {
            return None;
        }
        let added = tokenizer.get_added_tokens_decoder().into_values();
        let added: Vec<String> = added.map(|token| token.content).collect();
        let mut begins_added = [false; 256];
        for token in &added {
            begins_added[usize::from(*token.as_bytes().first()?)] = true;
        }
        Some(FastEncoder {
            tokenizer,
            added,
            begins_added,
            letters: letters(),
            words: HashMap::new(),
            tokens: Vec::new(),
            classes: HashMap::new(),
            spelt: String::new(),
        })
    }

    /// The tokens of a text, unless it holds an added token.
    pub(super) fn encode(&mut self, text: &str) -> tokenizers::Result<Option<Vec<u32>>> {
        if self.holds_added(text) {
            return Ok(None);
        }
        let mut tokens = Vec::with_capacity(text.len() / 3);
        let mut rest = text;
        while !rest.is_empty() {
            let (word, behind) = rest.split_at(self.word(rest)?);
            self.push(word, &mut tokens)?;
            rest = behind;
        }
        Ok(Some(tokens))
    }

    fn holds_added(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        let begins = |at: usize| {
            let is_at = |token: &String| bytes[at..].starts_with(token.as_bytes());
            self.begins_added[usize::from(bytes[at])] && self.added.iter().any(is_at)
        };
        (0..bytes.len()).any(begins)
    }

    fn push(&mut self, word: &str, tokens: &mut Vec<u32>) -> tokenizers::Result<()> {
        if let Some(&(start, end)) = self.words.get(word) {
            tokens.extend_from_slice(&self.tokens[start as usize..end as usize]);
            return Ok(());
        }
        self.spelt.clear();
        let letters = word.bytes().map(|byte| self.letters[usize::from(byte)]);
        self.spelt.extend(letters);
        let found = self.tokenizer.get_model().tokenize(&self.spelt)?;
        if word.len() <= MOST_WORD_BYTES && self.words.len() < MOST_WORDS {
            let start = self.tokens.len() as u32;
            self.tokens.extend(found.iter().map(|token| token.id));
            let end = self.tokens.len() as u32;
            self.words.insert(word.into(), (start, end));
        }
        tokens.extend(found.iter().map(|token| token.id));
        Ok(())
    }

    // The length of the first word: `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
    fn word(&mut self, text: &str) -> tokenizers::Result<usize> {
        if text.starts_with('\'')
            && let Some(ending) = ENDINGS.iter().find(|ending| text.starts_with(**ending))
        {
            return Ok(ending.len());
        }
        let space = usize::from(text.starts_with(' '));
        if let Some(first) = text[space..].chars().next() {
            let class = self.class(first)?;
            if class != Class::Space {
                return Ok(space + self.run(&text[space..], class)?);
            }
        }
        let spaces = self.run(text, Class::Space)?;
        if spaces == text.len() {
            return Ok(spaces);
        }
        // The last one is left to what follows, unless it is alone.
        let last = text[..spaces].chars().next_back().map_or(0, char::len_utf8);
        Ok(match spaces - last {
            0 => spaces,
            others => others,
        })
    }

    // The bytes of the first characters, all of one class.
    fn run(&mut self, text: &str, class: Class) -> tokenizers::Result<usize> {
        for (at, letter) in text.char_indices() {
            if self.class(letter)? != class {
                return Ok(at);
            }
        }
        Ok(text.len())
    }

    fn class(&mut self, letter: char) -> tokenizers::Result<Class> {
        Ok(match letter {
            'a'..='z' | 'A'..='Z' => Class::Letter,
            '0'..='9' => Class::Number,
            ' ' | '\t'..='\r' => Class::Space,
            _ if letter.is_ascii() => Class::Other,
            _ => match self.classes.get(&letter) {
                Some(class) => *class,
                None => {
                    let class = self.library_class(letter)?;
                    self.classes.insert(letter, class);
                    class
                }
            },
        })
    }

    // Which of Unicode's letters there are depends on the version that the library knows.
    fn library_class(&self, letter: char) -> tokenizers::Result<Class> {
        for (before, class) in [
            ('a', Class::Letter),
            ('1', Class::Number),
            ('!', Class::Other),
        ] {
            let mut text = PreTokenizedString::from(format!("{before}{letter}"));
            if let Some(cut) = self.tokenizer.get_pre_tokenizer() {
                cut.pre_tokenize(&mut text)?;
            }
            let splits = text.get_splits(OffsetReferential::Original, OffsetType::Byte);
            if splits.len() == 1 {
                return Ok(class);
            }
        }
        Ok(Class::Space)
    }
}

// Bytes that are printed stand for themselves, and the others for letters from U+0100 on.
fn letters() -> Vec<char> {
    let is_printed = |byte: u32| matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut others = 0x100..;
    let mut letter = |byte: u32| match is_printed(byte) {
        true => char::from_u32(byte),
        false => others.next().and_then(char::from_u32),
    };
    let letters = (0..256).map(|byte| letter(byte).unwrap_or(char::REPLACEMENT_CHARACTER));
    letters.collect()
}
