//! Samples whose texts are numbers, each a token of its own ([`Tokenizer::ids`](train::data::Tokenizer::ids)).

use hal::random::Key;
use train::data::{Content, Sample, Settings};

/// A random number for `what` of sample `index`.
pub fn drawn(what: &str, index: usize, place: u64) -> u32 {
    Key::new(7, what, index as u64).block(place)[0]
}

/// 1 to `most` tokens of a vocabulary, for `what` of sample `index`.
pub fn drawn_tokens(what: &str, index: usize, most: u32, vocabulary: usize) -> Vec<u32> {
    let count = 1 + drawn("length", index, u64::from(most)) % most;
    (0..count)
        .map(|place| drawn(what, index, place.into()) % vocabulary as u32)
        .collect()
}

/// Tokens as a text.
pub fn text_of(tokens: &[u32]) -> String {
    let numbers: Vec<String> = tokens.iter().map(u32::to_string).collect();
    numbers.join(" ")
}

/// A file of samples.
pub fn samples(samples: impl Iterator<Item = Sample>) -> Content {
    Content::Samples {
        name: "numbers".into(),
        samples: samples.collect(),
    }
}

/// Settings of rows of `context` tokens, in batches of `rows`, one of which is for validation.
pub fn settings(context: usize, rows: usize) -> Settings {
    Settings {
        context,
        global_batch: rows,
        validation_batches: 1,
        ..Settings::default()
    }
}
