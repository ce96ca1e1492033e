//! The messages of a chat as a prompt.

use super::{Refusal, fields::shown};
use crate::Served;
use serde_json::{Map, Value};
use train::data::{Chat, ChatTemplate};

/// The most messages of a chat.
const MOST_MESSAGES: usize = 4096;

/// The template of the served model.
pub(super) fn template(served: &Served) -> Result<&ChatTemplate, Refusal> {
    served.template.as_ref().ok_or_else(|| {
        let name = served.tokenizer.name();
        Refusal::invalid(format!(
            "messages: the model's tokenizer, {name}, has no template for chats; use /v1/completions, or start the server \
             with --chat-template FILE"
        ))
        .about("messages")
        .code("no_chat_template")
    })
}

/// The text before the next answer.
pub(super) fn prompt(template: &ChatTemplate, found: &Value) -> Result<String, Refusal> {
    let refuse = |found: String, needed| Refusal::field("messages", found, needed);
    let list = found
        .as_array()
        .filter(|list| !list.is_empty() && list.len() <= MOST_MESSAGES)
        .ok_or_else(|| refuse(shown(found), "a list of 1 to 4096 messages"))?;
    let messages = list.iter().map(message).collect::<Result<Vec<_>, _>>()?;
    let count = messages.len();
    let chat = Chat {
        messages,
        tools: None,
    };
    template
        .render(&chat, count, true)
        .map_err(|error| Refusal::invalid(format!("messages: {error}")).about("messages"))
}

// A message with its text in one string, as templates read it.
fn message(found: &Value) -> Result<Map<String, Value>, Refusal> {
    let refuse = |needed| Refusal::field("messages", shown(found), needed);
    let role = found["role"].as_str().ok_or_else(|| refuse("a `role`"))?;
    let roles = ["system", "developer", "user", "assistant"];
    if !roles.contains(&role) {
        return Err(refuse("a role among system, developer, user and assistant"));
    }
    let fields = found.as_object().into_iter().flatten();
    let is_known = |(name, value): (&String, &Value)| {
        matches!(&**name, "role" | "content" | "name") || value.is_null()
    };
    if !fields.into_iter().all(is_known) {
        return Err(refuse("no field but role, content and name"));
    }
    let text = match &found["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .map(|part| match (&part["type"], &part["text"]) {
                (Value::String(kind), Value::String(text)) if kind == "text" => Ok(&**text),
                _ => Err(refuse("parts of the type text")),
            })
            .collect::<Result<String, _>>()?,
        _ => return Err(refuse("a `content` of text")),
    };
    // Templates know the role by its older name.
    let role = if role == "developer" { "system" } else { role };
    Ok(Chat::message(role, &text))
}
