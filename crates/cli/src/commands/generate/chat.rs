//! Chats: a template turns messages into prompts, and a conversation reads its messages from stdin, line by line.

use super::printer::emit;
use crate::failure::{Failure, Outcome};
use bootstrap::World;
use serde_json::{Map, Value};
use std::{
    io::{BufRead, IsTerminal, Read, stdin},
    path::Path,
    sync::{
        Arc,
        atomic::AtomicBool,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
};
use train::{
    data::{Chat, ChatTemplate, Tokenizer},
    generate::{Generator, Request, TICK, relay},
};

/// The most bytes of a message.
const MOST_BYTES: u64 = 1 << 20;

/// How messages become prompts.
#[derive(Clone, Debug)]
pub(super) struct Chats {
    template: ChatTemplate,
    begun: Vec<Map<String, Value>>,
}

impl Chats {
    /// With the template of a file or of the tokenizer, and a first message for the whole chat.
    ///
    /// # Errors
    /// [`Failure::Usage`] without a template, or for one that cannot be read.
    pub(super) fn new(
        tokenizer: &Tokenizer,
        file: Option<&Path>,
        system: Option<&str>,
    ) -> Outcome<Chats> {
        let template = match file {
            Some(path) => ChatTemplate::read(path).map_err(Failure::usage)?,
            None => tokenizer.chat().cloned().ok_or_else(|| {
                let name = tokenizer.name();
                Failure::usage(format!(
                    "--chat: the checkpoint's tokenizer, {name}, has no template for chats, needs --chat-template FILE"
                ))
            })?,
        };
        Ok(Chats {
            template,
            begun: system
                .map(|text| Chat::message("system", text))
                .into_iter()
                .collect(),
        })
    }

    /// The prompt for an answer to one message.
    ///
    /// # Errors
    /// As [`ChatTemplate::render`].
    pub(super) fn prompt(&self, text: &str) -> train::Result<String> {
        self.prompt_of(&self.chat(&[Chat::message("user", text)]))
    }

    fn chat(&self, messages: &[Map<String, Value>]) -> Chat {
        Chat {
            messages: [&self.begun, messages].concat(),
            tools: None,
        }
    }

    fn prompt_of(&self, chat: &Chat) -> train::Result<String> {
        Ok(self.template.render(chat, chat.messages.len(), true)?)
    }

    /// The request for each answer.
    ///
    /// # Errors
    /// As [`Request::answering`].
    pub(super) fn request(&self, asked: Request, tokenizer: &Tokenizer) -> train::Result<Request> {
        asked.answering(&self.template, tokenizer)
    }

    /// Answers the lines of the first rank's stdin until it ends. Collective.
    ///
    /// # Errors
    /// Those of the generator, of the exchange, and of stdout.
    pub(super) fn converse(
        &self,
        world: &World,
        (generator, tokenizer): (&mut Generator<'_>, &Tokenizer),
        request: &Request,
        closed: &Arc<AtomicBool>,
    ) -> train::Result<()> {
        let is_first = world.rank() == 0;
        let lines = is_first.then(lines);
        let mut messages = Vec::new();
        let print = |text: &str| match is_first {
            true => emit(closed, text),
            false => Ok(()),
        };
        while let Some(line) = next(world, lines.as_ref())? {
            messages.push(Chat::message("user", &line));
            let prompt = self.prompt_of(&self.chat(&messages))?;
            generator.add(Request {
                prompt: tokenizer.encode(&prompt)?,
                ..request.clone()
            })?;
            let mut answer = String::new();
            generator.run(|token| {
                answer += &token.text;
                print(&token.text)
            })?;
            print("\n")?;
            messages.push(Chat::message("assistant", answer.trim_end()));
        }
        Ok(())
    }
}

// The lines of stdin as they come, read on a thread of its own: nothing else may wait for a person.
fn lines() -> Receiver<std::io::Result<String>> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let is_terminal = stdin().is_terminal();
        let mut input = stdin().lock();
        loop {
            if is_terminal {
                eprint!("> ");
            }
            let Some(line) = line(&mut input).transpose() else {
                return;
            };
            let is_last = line.is_err();
            if send.send(line).is_err() || is_last {
                return;
            }
        }
    });
    receive
}

// A line without its end; `None` at the end.
fn line(input: &mut impl BufRead) -> std::io::Result<Option<String>> {
    let refuse = |found: String| {
        let sentence = format!("stdin: found {found}");
        std::io::Error::new(std::io::ErrorKind::InvalidData, sentence)
    };
    let mut bytes = Vec::new();
    if input.take(MOST_BYTES + 1).read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    if bytes.len() as u64 > MOST_BYTES {
        let found = format!("a message of more than {MOST_BYTES} bytes, needs at most as many");
        return Err(refuse(found));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        refuse(format!(
            "a byte at {at} of a message that is not UTF-8, needs text"
        ))
    })?;
    Ok(Some(text.trim_end_matches(['\n', '\r']).to_owned()))
}

// The next line of the first rank, on all ranks; `None` at the end.
fn next(
    world: &World,
    lines: Option<&Receiver<std::io::Result<String>>>,
) -> train::Result<Option<String>> {
    loop {
        world.beat("waiting for a message");
        let own = || match lines.map(|lines| lines.recv_timeout(TICK)) {
            Some(Ok(line)) => Ok(Some(line?)),
            Some(Err(RecvTimeoutError::Disconnected)) => Ok(None),
            Some(Err(RecvTimeoutError::Timeout)) | None => Ok(Some(String::new())),
        };
        // An empty line is no message.
        match relay(world, 0, own)? {
            Some(line) if line.is_empty() => continue,
            line => return Ok(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_without_a_template_needs_one() {
        let refused = Chats::new(&Tokenizer::bytes(), None, None).unwrap_err();
        assert_eq!(
            refused.sentence(),
            Some(
                "--chat: the checkpoint's tokenizer, bytes, has no template for chats, needs --chat-template FILE"
            )
        );
    }

    #[test]
    fn messages_are_lines_of_text_within_a_bound() {
        let mut input: &[u8] = b"one\r\n\ntwo";
        let mut next = || line(&mut input).unwrap();
        let found = [next(), next(), next(), next()];
        let needed = [Some("one"), Some(""), Some("two"), None];
        assert_eq!(found.each_ref().map(Option::as_deref), needed);
        let refused = |mut input: &[u8]| line(&mut input).unwrap_err().to_string();
        assert_eq!(
            refused(b"a\xff\n"),
            "stdin: found a byte at 1 of a message that is not UTF-8, needs text"
        );
        assert_eq!(
            refused(&vec![b'a'; 2 << 20]),
            "stdin: found a message of more than 1048576 bytes, needs at most as many"
        );
    }

    #[test]
    fn a_message_becomes_a_prompt_and_its_answer_ends_where_the_template_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("chat.jinja");
        let template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>\n{% endfor %}\
                        {% if add_generation_prompt %}<assistant>{% endif %}";
        std::fs::write(&file, template).unwrap();
        let tokenizer = Tokenizer::bytes();
        let chats = Chats::new(&tokenizer, Some(&file), Some("be brief")).unwrap();
        assert_eq!(
            chats.prompt("hi").unwrap(),
            "<system>be brief</s>\n<user>hi</s>\n<assistant>"
        );
        let request = chats.request(Request::default(), &tokenizer).unwrap();
        assert_eq!((request.stop, request.end), (vec!["</s>".to_owned()], None));
    }
}
