//! Templates of chats: from messages to the text that a model reads.

#[cfg(feature = "tokenizers")]
mod jinja;
#[cfg(not(feature = "tokenizers"))]
#[path = "chat/no_jinja.rs"]
mod jinja;
mod pieces;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::MOST_BYTES;
use crate::data::{Chat, Error, Result, text};
use jinja::Compiled;
pub(in crate::data) use pieces::Renderer;

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
        let text = text(path, MOST_BYTES)?;
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
        Compiled::new(&found.template).map_err(|reason| fault(path, &reason))?;
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
        let chat = Chat {
            messages: vec![
                Chat::message("user", "a question"),
                Chat::message("assistant", ANSWER),
            ],
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
    /// # Cost
    /// Compiles the template first.
    /// # Errors
    /// [`Error::Template`] for messages that the template refuses.
    pub fn render(&self, chat: &Chat, messages: usize, answers: bool) -> Result<String> {
        self.renderer()?.render(chat, messages, answers)
    }

    /// The same for many chats.
    ///
    /// # Errors
    /// [`Error::Template`] in a build without the feature `tokenizers`.
    pub(in crate::data) fn renderer(&self) -> Result<Renderer<'_>> {
        let compiled = Compiled::new(&self.template);
        Ok(Renderer {
            template: self,
            compiled: compiled.map_err(|reason| fault(Path::new(&self.name), &reason))?,
        })
    }
}

impl Settings {
    /// `None` if there is no such file.
    fn read(path: &Path) -> Result<Option<Settings>> {
        match text(path, MOST_BYTES) {
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

fn fault(path: &Path, reason: &dyn std::fmt::Display) -> Error {
    Error::Template {
        name: path.display().to_string(),
        reason: reason.to_string(),
    }
}

#[cfg(all(test, feature = "tokenizers"))]
mod tests;
