//! The texts to continue: from arguments, files or stdin.

use super::chat::Chats;
use crate::failure::{Failure, Outcome};
use bootstrap::World;
use std::{
    io::{IsTerminal, Read, stdin},
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};
use train::{
    data::Tokenizer,
    generate::{Request, relay},
};

/// The most bytes of a prompt.
const MOST_BYTES: u64 = 16 << 20;

/// The texts to continue, at least one.
#[derive(Clone, Debug)]
pub(super) struct Prompts {
    texts: Vec<String>,
    // Whether nobody reads stdout any more.
    pipe_closed: Arc<AtomicBool>,
}

impl Prompts {
    /// Those of the arguments, then those of the files; without any, that of stdin.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a file that cannot be read, is too long or is not UTF-8.
    pub(super) fn read(
        arguments: &[String],
        files: &[PathBuf],
        tokenizer: &Tokenizer,
    ) -> Outcome<Prompts> {
        let mut texts = arguments.to_vec();
        for path in files {
            let name = format!("--prompt-file {}", path.display());
            let file = std::fs::File::open(path)
                .map_err(|error| Failure::usage(format!("{name}: {error}")))?;
            texts.push(text(&name, file)?);
        }
        if texts.is_empty() {
            let piped = match stdin().is_terminal() {
                true => String::new(),
                false => text("stdin", stdin().lock())?,
            };
            let is_empty = piped.is_empty();
            texts.push(if is_empty {
                train::run::first_prompt(tokenizer)
            } else {
                piped
            });
        }
        Ok(Prompts {
            texts,
            pipe_closed: Arc::default(),
        })
    }

    /// None: a conversation has its own.
    pub(super) fn none() -> Prompts {
        Prompts {
            texts: Vec::new(),
            pipe_closed: Arc::default(),
        }
    }

    /// Checks the request with each prompt.
    ///
    /// # Errors
    /// [`Failure::Usage`] with what cannot be.
    pub(super) fn check(
        &self,
        request: &Request,
        vocabulary: usize,
        (tokenizer, chats): (&Tokenizer, Option<&Chats>),
    ) -> Outcome {
        for text in &self.texts {
            let prompt = tokens(text, tokenizer, chats)
                .map_err(|error| Failure::usage(format!("--prompt: {error}")))?;
            let request = Request {
                prompt,
                ..request.clone()
            };
            request.check(vocabulary).map_err(of_flags)?;
        }
        Ok(())
    }

    /// Those of the first rank: a launcher may give stdin to it alone. Collective.
    ///
    /// # Errors
    /// Those of the exchange.
    pub(super) fn shared(&self, world: &World) -> train::Result<Prompts> {
        Ok(Prompts {
            texts: relay(world, 0, || Ok(self.texts.clone()))?,
            pipe_closed: self.pipe_closed.clone(),
        })
    }

    /// The texts.
    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Becomes true when a text cannot be printed because nobody reads it.
    pub(super) fn pipe_closed(&self) -> Arc<AtomicBool> {
        self.pipe_closed.clone()
    }
}

/// The tokens of a prompt, or of a chat's message.
///
/// # Errors
/// Those of the tokenizer and of the template.
pub(super) fn tokens(
    text: &str,
    tokenizer: &Tokenizer,
    chats: Option<&Chats>,
) -> train::Result<Vec<u32>> {
    Ok(match chats {
        Some(chats) => tokenizer.encode(&chats.prompt(text)?)?,
        None => tokenizer.encode(text)?,
    })
}

fn text(name: &str, from: impl Read) -> Outcome<String> {
    let refuse = |why: String| Failure::usage(format!("{name}: {why}"));
    let mut bytes = Vec::new();
    from.take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| refuse(error.to_string()))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(refuse(format!(
            "found more than {MOST_BYTES} bytes, needs at most as many"
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        refuse(format!(
            "found a byte at {at} that is not UTF-8, needs text"
        ))
    })
}

// A setting of the request is a flag here.
fn of_flags(error: train::Error) -> Failure {
    match error {
        train::Error::Setting { key, found, needed } => {
            let flag = match &*key {
                "log_probabilities" => "logprobs".to_owned(),
                key => key.replace('_', "-"),
            };
            Failure::usage(format!("--{flag}: found {found}, needs {needed}"))
        }
        error => Failure::usage(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str], files: &[PathBuf]) -> Result<Vec<String>, String> {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        let prompts = Prompts::read(&arguments, files, &Tokenizer::bytes());
        let sentence = |failure: Failure| failure.sentence().unwrap().to_owned();
        prompts.map(|prompts| prompts.texts).map_err(sentence)
    }

    #[test]
    fn arguments_come_before_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("prompt");
        std::fs::write(&path, "é\n").unwrap();
        assert_eq!(
            read(&["a", "b"], std::slice::from_ref(&path)).unwrap(),
            ["a", "b", "é\n"]
        );
        std::fs::write(&path, [b'a', 0xE9, b'b']).unwrap();
        let error = read(&[], std::slice::from_ref(&path)).unwrap_err();
        assert!(
            error.ends_with("prompt: found a byte at 1 that is not UTF-8, needs text"),
            "{error}"
        );
        let error = read(&[], &[dir.path().join("none")]).unwrap_err();
        assert!(
            error.starts_with("--prompt-file ") && error.contains("No such file"),
            "{error}"
        );
        let endless = std::io::repeat(b'a');
        assert!(text("stdin", endless).is_err());
    }

    #[test]
    fn prompts_are_checked_before_any_rank_starts() {
        let prompts = Prompts {
            texts: vec!["a".into(), String::new()],
            pipe_closed: Arc::default(),
        };
        let failure = prompts
            .check(&Request::default(), 256, (&Tokenizer::bytes(), None))
            .unwrap_err();
        assert_eq!(
            failure.sentence(),
            Some("--prompt: found no token, needs at least 1")
        );
    }
}
