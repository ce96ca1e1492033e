//! The text of a chat, and which parts of it an assistant has written.

use std::path::Path;

use super::{ChatTemplate, fault, jinja::Compiled};
use crate::data::{Chat, Result};

/// A template that is compiled once, for many chats.
pub(in crate::data) struct Renderer<'a> {
    pub(super) template: &'a ChatTemplate,
    pub(super) compiled: Compiled,
}

impl Renderer<'_> {
    /// As [`ChatTemplate::render`].
    pub(super) fn render(&self, chat: &Chat, messages: usize, answers: bool) -> Result<String> {
        let known = serde_json::json!({
            "messages": chat.messages[..messages],
            "tools": chat.tools,
            "add_generation_prompt": answers,
            "bos_token": self.template.bos_token,
            "eos_token": self.template.eos_token,
        });
        let rendered = self.compiled.render(known);
        rendered.map_err(|reason| self.fault(&reason))
    }

    /// The text of a chat.
    ///
    /// # Errors
    /// As [`ChatTemplate::render`].
    pub(in crate::data) fn whole(&self, chat: &Chat) -> Result<String> {
        self.render(chat, chat.messages.len(), false)
    }

    /// The text of a chat, in pieces, of which those that an assistant has written count, but none of the first `given`
    /// messages.
    ///
    /// # Errors
    /// As [`ChatTemplate::render`], and for a template that writes earlier messages otherwise once others follow: no piece of
    /// its text is then an answer's.
    pub(in crate::data) fn pieces(&self, chat: &Chat, given: usize) -> Result<Vec<(String, bool)>> {
        let whole = self.whole(chat)?;
        let (mut pieces, mut at) = (Vec::new(), 0);
        for (index, message) in chat.messages.iter().enumerate().skip(given) {
            if message.get("role").is_none_or(|role| role != "assistant") {
                continue;
            }
            let prompt = self.render(chat, index, true)?;
            let answered = self.render(chat, index + 1, false)?;
            let is_kept = whole.starts_with(&answered) && answered.starts_with(&prompt);
            if !is_kept || prompt.len() < at {
                let number = index + 1;
                return Err(self.fault(&format!(
                    "it writes the messages before message {number} otherwise once others follow, so answers cannot be told \
                     from the rest, needs data.loss_on = \"all\""
                )));
            }
            pieces.push((whole[at..prompt.len()].to_owned(), false));
            pieces.push((whole[prompt.len()..answered.len()].to_owned(), true));
            at = answered.len();
        }
        pieces.push((whole[at..].to_owned(), false));
        Ok(pieces)
    }

    fn fault(&self, reason: &str) -> crate::data::Error {
        fault(Path::new(self.template.name()), &reason)
    }
}
