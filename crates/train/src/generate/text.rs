//! Text as it arrives: whole characters, up to a stop string.

use crate::data::Tokenizer;

/// Tokens of the prompt that the decoder sees before the first new one, because some tokenizers write a token differently at
/// the beginning of a text.
const TOKENS_BEFORE: usize = 4;

/// The text of a sequence's new tokens.
///
/// Text that a later token may change is held back: a character of which bytes are missing, and the beginning of a stop
/// string.
#[derive(Debug)]
pub(super) struct TextStream {
    tokenizer: Tokenizer,
    stop: Vec<String>,
    // Tokens whose text is complete, and those after them.
    before: Vec<u32>,
    open: Vec<u32>,
    // Bytes of the text of both that have left.
    taken: usize,
    // Text that may be the beginning of a stop string.
    held: String,
}

impl TextStream {
    /// The text after `prompt`.
    pub(super) fn new(tokenizer: &Tokenizer, prompt: &[u32], stop: &[String]) -> TextStream {
        let before = prompt[prompt.len().saturating_sub(TOKENS_BEFORE)..].to_vec();
        TextStream {
            taken: tokenizer.decode(&before).len(),
            tokenizer: tokenizer.clone(),
            stop: stop.to_vec(),
            before,
            open: Vec::new(),
            held: String::new(),
        }
    }

    /// Adds a token. Returns the text that is certain now, and whether it ends with a stop string, which is left out.
    pub(super) fn push(&mut self, token: u32) -> (String, bool) {
        self.open.push(token);
        let text = self.text();
        let is_open = text.ends_with(char::REPLACEMENT_CHARACTER);
        let end = text.len() - usize::from(is_open) * char::REPLACEMENT_CHARACTER.len_utf8();
        let fresh = text.get(self.taken..end).unwrap_or_default();
        self.held.push_str(fresh);
        self.taken += fresh.len();
        if !is_open {
            self.before = std::mem::take(&mut self.open);
            self.taken = self.tokenizer.decode(&self.before).len();
        }
        self.release()
    }

    /// What was held back, at the end of the sequence.
    pub(super) fn finish(&mut self) -> String {
        let text = self.text();
        let mut rest = std::mem::take(&mut self.held);
        rest.push_str(text.get(self.taken..).unwrap_or_default());
        self.taken = text.len();
        rest
    }

    fn text(&self) -> String {
        self.tokenizer
            .decode(&[&self.before[..], &self.open].concat())
    }

    fn release(&mut self) -> (String, bool) {
        let found = self
            .stop
            .iter()
            .filter_map(|stop| self.held.find(&**stop))
            .min();
        if let Some(at) = found {
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), true);
        }
        let kept = self.stop.iter().map(|stop| overlap(&self.held, stop)).max();
        let rest = self.held.split_off(self.held.len() - kept.unwrap_or(0));
        (std::mem::replace(&mut self.held, rest), false)
    }
}

// The longest end of `text` with which `stop` begins, in bytes.
fn overlap(text: &str, stop: &str) -> usize {
    let ends = stop.char_indices().map(|(at, _)| at).rev();
    ends.into_iter()
        .find(|at| text.ends_with(&stop[..*at]))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream(stop: &[&str]) -> TextStream {
        let stop: Vec<String> = stop.iter().map(|stop| (*stop).to_owned()).collect();
        TextStream::new(&Tokenizer::bytes(), b"pr".map(u32::from).as_ref(), &stop)
    }

    // What leaves with each byte, up to a stop string, and at the end.
    fn pieces(mut stream: TextStream, bytes: &[u8]) -> (Vec<String>, bool) {
        let mut pieces = Vec::new();
        for byte in bytes {
            let (text, stops) = stream.push(u32::from(*byte));
            pieces.push(text);
            if stops {
                return (pieces, true);
            }
        }
        pieces.push(stream.finish());
        (pieces, false)
    }

    #[test]
    fn a_character_leaves_with_its_last_byte() {
        let (found, _) = pieces(stream(&[]), "aé€".as_bytes());
        assert_eq!(found, ["a", "", "é", "", "", "€", ""]);
        let (found, _) = pieces(stream(&[]), &[b'a', 0xC3]);
        assert_eq!(found, ["a", "", "\u{fffd}"]);
    }

    #[test]
    fn the_text_ends_before_a_stop_string_across_tokens() {
        let (found, stops) = pieces(stream(&["END", "\n\n"]), b"aENbEEND more");
        assert!(stops);
        assert_eq!(found, ["a", "", "", "ENb", "", "E", "", ""]);
        let (found, stops) = pieces(stream(&["END"]), b"aEN");
        assert_eq!((found.concat(), stops), ("aEN".to_owned(), false));
        let (found, stops) = pieces(stream(&["é"]), "xé".as_bytes());
        assert_eq!((found.concat(), stops), ("x".to_owned(), true));
    }

    #[test]
    fn numbers_keep_their_spaces() {
        let mut stream = TextStream::new(&Tokenizer::ids(100), &[7], &[]);
        assert_eq!(stream.push(12).0, " 12");
        assert_eq!(stream.push(3).0, " 3");
    }

    proptest! {
        #[test]
        fn pieces_make_the_text(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(0xE2), Just(0x82), Just(0xAC)], 0..40)) {
            let tokens: Vec<u32> = bytes.iter().copied().map(u32::from).collect();
            let (found, _) = pieces(stream(&[]), &bytes);
            prop_assert_eq!(found.concat(), Tokenizer::bytes().decode(&tokens));
        }

        #[test]
        fn the_first_stop_string_ends_the_text(text in "[ab]{0,20}", stop in "[ab]{1,3}", other in "[ab]{2,3}") {
            let (found, stops) = pieces(stream(&[&stop, &other]), text.as_bytes());
            // A stop string is found with its last character, and of several the one that begins first.
            let ends = (0..=text.len()).find(|end| [&stop, &other].iter().any(|stop| text[..*end].ends_with(&***stop)));
            let expected = match ends {
                None => text.clone(),
                Some(end) => {
                    let found = [&stop, &other].into_iter().filter_map(|stop| text[..end].find(&**stop));
                    text[..found.min().unwrap()].to_owned()
                }
            };
            prop_assert_eq!((found.concat(), stops), (expected, ends.is_some()));
        }
    }
}
