//! TOML to a configuration, with a hint for a misspelt key.

use super::{Config, suggest::nearest};
use crate::{Error, Result};

pub(super) fn config(text: &str) -> Result<Config> {
    toml::from_str(text).map_err(|error| {
        let line = error
            .span()
            .map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let place = line.map_or(String::new(), |line| format!("line {line}: "));
        Error::Config(format!("{place}{}", hinted(error.message())))
    })
}

// serde names the key that it does not know and those that it does, all in back quotes.
fn hinted(message: &str) -> String {
    let message = message.trim();
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let Some((found, known)) = quoted
        .split_first()
        .filter(|_| message.starts_with("unknown"))
    else {
        return message.replace('\n', " ");
    };
    match nearest(found, known) {
        Some(near) => format!("found `{found}`, which does not exist here; did you mean `{near}`?"),
        None => format!("found `{found}`, needs one of {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_gets_its_line_and_the_nearest_key() {
        let text = "seed = 3\n[training]\nlerning_rate = 1e-3\n";
        let message = config(text).unwrap_err().to_string();
        assert_eq!(
            message,
            "line 3: found `lerning_rate`, which does not exist here; did you mean `learning_rate`?"
        );
    }

    #[test]
    fn a_key_unlike_all_others_gets_the_list() {
        let message = config("[parallel]\nzzzzzzzz = 1\n")
            .unwrap_err()
            .to_string();
        assert!(
            message.starts_with("line 2: found `zzzzzzzz`, needs one of ranks, grid, order"),
            "{message}"
        );
    }

    #[test]
    fn a_configuration_survives_writing_and_reading() {
        let mut written = Config::default();
        written.parallel.overlap = super::super::OverlapNames(parallel::Overlap::NONE);
        written.model.family = nn::Family::Llama;
        assert_eq!(config(&written.to_toml().unwrap()).unwrap(), written);
    }
}
