//! Templates of chats: from messages to the text that a model reads.

use std::path::{Path, PathBuf};

use hal::files;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::MOST_BYTES;
use crate::data::{Chat, Error, Result};

/// The files beside a `tokenizer.json` that hold a template: the second wins, as in the library transformers.
const SETTINGS_FILE: &str = "tokenizer_config.json";
const TEMPLATE_FILE: &str = "chat_template.jinja";

/// How a model's makers write a chat as text, in Jinja's language, with the texts of the tokens that it names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatTemplate {
    name: String,
    template: String,
    /// The text of the token that begins a document; empty if there is none.
    bos_token: String,
    /// The text of the token that ends one.
    eos_token: String,
}

/// The part of a `tokenizer_config.json` that a template needs.
#[derive(Default, Deserialize)]
struct Settings {
    #[serde(default)]
    chat_template: Option<Value>,
    #[serde(default)]
    bos_token: Option<Value>,
    #[serde(default)]
    eos_token: Option<Value>,
}

impl ChatTemplate {
    /// The template that lies beside a `tokenizer.json`, if there is one.
    ///
    /// # Errors
    /// As [`read`](ChatTemplate::read).
    pub fn beside(tokenizer: &Path) -> Result<Option<ChatTemplate>> {
        let folder = tokenizer.parent().unwrap_or(Path::new(""));
        let settings = Settings::read(&folder.join(SETTINGS_FILE))?;
        let file = folder.join(TEMPLATE_FILE);
        if file.is_file() {
            return ChatTemplate::of_text(&file, settings.unwrap_or_default()).map(Some);
        }
        match settings {
            Some(settings) if settings.chat_template.is_some() => {
                ChatTemplate::of_settings(&folder.join(SETTINGS_FILE), settings).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The template in a file of Jinja's language, or in a `tokenizer_config.json`.
    ///
    /// # Errors
    /// [`Error::Missing`] and [`Error::Io`]; [`Error::Template`] for a file without a template, or one that is not in that
    /// language.
    pub fn read(path: &Path) -> Result<ChatTemplate> {
        match path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            false => {
                let beside = path.with_file_name(SETTINGS_FILE);
                ChatTemplate::of_text(path, Settings::read(&beside)?.unwrap_or_default())
            }
            true => match Settings::read(path)? {
                Some(settings) => ChatTemplate::of_settings(path, settings),
                None => Err(Error::Missing { path: path.into() }),
            },
        }
    }

    fn of_text(path: &Path, settings: Settings) -> Result<ChatTemplate> {
        let text = text(path)?;
        ChatTemplate::new(path, text, &settings)
    }

    fn of_settings(path: &Path, mut settings: Settings) -> Result<ChatTemplate> {
        let found = settings.chat_template.take();
        let template = match &found {
            Some(Value::String(template)) => template.clone(),
            // Several by name, of which one is the default.
            Some(Value::Array(named)) => {
                let default = named.iter().find(|one| one["name"] == "default");
                let template = default.and_then(|one| one["template"].as_str());
                let needs = || fault(path, &"found several, needs one named `default`");
                template.ok_or_else(needs)?.to_owned()
            }
            _ => return Err(fault(path, &"found none, needs the key `chat_template`")),
        };
        ChatTemplate::new(path, template, &settings)
    }

    fn new(path: &Path, template: String, settings: &Settings) -> Result<ChatTemplate> {
        let found = ChatTemplate {
            name: path.display().to_string(),
            template,
            bos_token: token_text(&settings.bos_token),
            eos_token: token_text(&settings.eos_token),
        };
        jinja::check(&found.template).map_err(|reason| fault(path, &reason))?;
        Ok(found)
    }

    /// Its file, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text of the token that ends a document; empty if there is none.
    pub fn eos_token(&self) -> &str {
        &self.eos_token
    }

    /// What follows an answer, without spaces and line ends around it, if anything does.
    ///
    /// # Errors
    /// As [`render`](ChatTemplate::render).
    pub fn after_answer(&self) -> Result<Option<String>> {
        const ANSWER: &str = "an answer";
        let message = |role: &str, content: &str| {
            let keys = [("role", role), ("content", content)];
            keys.map(|(key, text)| (key.to_owned(), Value::from(text)))
                .into_iter()
                .collect()
        };
        let chat = Chat {
            messages: vec![message("user", "a question"), message("assistant", ANSWER)],
            tools: None,
        };
        let text = self.render(&chat, 2, false)?;
        let after = text
            .rsplit_once(ANSWER)
            .map_or("", |(_, after)| after.trim());
        Ok((!after.is_empty()).then(|| after.to_owned()))
    }

    /// The files that another program reads it from, with their names.
    pub fn files(&self) -> [(PathBuf, String); 2] {
        let settings = serde_json::json!({
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": (!self.bos_token.is_empty()).then_some(&self.bos_token),
            "eos_token": (!self.eos_token.is_empty()).then_some(&self.eos_token),
        });
        [
            (TEMPLATE_FILE.into(), self.template.clone()),
            (SETTINGS_FILE.into(), format!("{settings:#}\n")),
        ]
    }

    /// The text of the first `messages` messages of a chat; with `answers`, up to where the next answer begins.
    ///
    /// # Errors
    /// [`Error::Template`] for messages that the template refuses.
    pub fn render(&self, chat: &Chat, messages: usize, answers: bool) -> Result<String> {
        let known = serde_json::json!({
            "messages": chat.messages[..messages],
            "tools": chat.tools,
            "add_generation_prompt": answers,
            "bos_token": self.bos_token,
            "eos_token": self.eos_token,
        });
        jinja::render(&self.template, known).map_err(|reason| Error::Template {
            name: self.name.clone(),
            reason,
        })
    }

    /// The text of a chat, in pieces, of which those that an assistant has written count.
    ///
    /// # Errors
    /// As [`render`](ChatTemplate::render), and for a template that writes earlier messages otherwise once others follow: no
    /// piece of its text is then an answer's.
    pub(in crate::data) fn pieces(&self, chat: &Chat) -> Result<Vec<(String, bool)>> {
        let whole = self.render(chat, chat.messages.len(), false)?;
        let (mut pieces, mut at) = (Vec::new(), 0);
        for (index, message) in chat.messages.iter().enumerate() {
            if message["role"] != "assistant" {
                continue;
            }
            let prompt = self.render(chat, index, true)?;
            let answered = self.render(chat, index + 1, false)?;
            let is_kept = whole.starts_with(&answered) && answered.starts_with(&prompt);
            if !is_kept || prompt.len() < at {
                let number = index + 1;
                let reason = format!(
                    "it writes the messages before message {number} otherwise once others follow, so answers cannot be told \
                     from the rest, needs data.loss_on = \"all\""
                );
                return Err(fault(Path::new(&self.name), &reason));
            }
            pieces.push((whole[at..prompt.len()].to_owned(), false));
            pieces.push((whole[prompt.len()..answered.len()].to_owned(), true));
            at = answered.len();
        }
        pieces.push((whole[at..].to_owned(), false));
        Ok(pieces)
    }
}

impl Settings {
    /// `None` if there is no such file.
    fn read(path: &Path) -> Result<Option<Settings>> {
        match text(path) {
            Ok(text) => {
                let settings = serde_json::from_str(&text);
                settings.map(Some).map_err(|error| fault(path, &error))
            }
            Err(Error::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A token's text: as such, or in an object that says more of it.
fn token_text(token: &Option<Value>) -> String {
    let text = token.as_ref().and_then(|token| {
        let content = token.get("content").unwrap_or(token);
        content.as_str()
    });
    text.unwrap_or_default().to_owned()
}

fn text(path: &Path) -> Result<String> {
    let bytes = files::read(path, MOST_BYTES).map_err(|error| Error::io("reading", path, error))?;
    String::from_utf8(bytes).map_err(|error| Error::InvalidUtf8 {
        name: path.display().to_string(),
        position: error.utf8_error().valid_up_to(),
    })
}

fn fault(path: &Path, reason: &dyn std::fmt::Display) -> Error {
    Error::Template {
        name: path.display().to_string(),
        reason: reason.to_string(),
    }
}

/// Jinja's language as the library transformers sets it up.
#[cfg(feature = "tokenizers")]
mod jinja {
    use minijinja::{Environment, Error, ErrorKind, syntax::SyntaxConfig, value::Serde};
    use serde_json::Value;

    /// Instructions of a template before it is stopped: a few hundred for each message are usual.
    const MOST_INSTRUCTIONS: u64 = 10_000_000;

    fn environment() -> Result<Environment<'static>, Error> {
        let mut environment = Environment::new();
        let mut syntax = SyntaxConfig::builder();
        environment.set_syntax(syntax.trim_blocks(true).lstrip_blocks(true).build()?);
        environment.set_fuel(Some(MOST_INSTRUCTIONS));
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |reason: String| {
            Err::<(), _>(Error::new(ErrorKind::InvalidOperation, reason))
        });
        Ok(environment)
    }

    pub(super) fn check(template: &str) -> Result<(), String> {
        let checked = environment().and_then(|known| known.template_from_str(template).map(drop));
        checked.map_err(|error| sentence(&error))
    }

    pub(super) fn render(template: &str, known: Value) -> Result<String, String> {
        let rendered = environment().and_then(|jinja| jinja.render_str(template, Serde(known)));
        rendered.map_err(|error| sentence(&error))
    }

    fn sentence(error: &Error) -> String {
        let place = error
            .line()
            .map_or(String::new(), |line| format!(" (line {line})"));
        match error.detail() {
            Some(detail) => format!("{detail}{place}"),
            None => format!("{}{place}", error.kind()),
        }
    }
}

#[cfg(not(feature = "tokenizers"))]
mod jinja {
    use serde_json::Value;

    const NEEDS: &str = "found a build without the feature `tokenizers`, needs one with it: cargo build --features tokenizers";

    pub(super) fn check(_template: &str) -> Result<(), String> {
        Err(NEEDS.to_owned())
    }

    pub(super) fn render(_template: &str, _known: Value) -> Result<String, String> {
        Err(NEEDS.to_owned())
    }
}

#[cfg(all(test, feature = "tokenizers"))]
mod tests;
