//! For tests: configurations of a small GPT.

use families::{GptConfig, families};
use train::Config;

/// The default configuration, with a vocabulary of `vocabulary` tokens.
pub(crate) fn config(vocabulary: usize) -> Config {
    let mut config =
        Config::parse("", &families()).expect("an empty configuration is the default one");
    config
        .model
        .edit(|model: &mut GptConfig| model.vocabulary = vocabulary)
        .expect("the default model is a GPT");
    config
}
