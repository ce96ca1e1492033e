//! The body of a request, field by field: what is left at the end is unknown, or cannot be honoured.

use super::Refusal;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Letters of a value that a message repeats.
const SHOWN: usize = 60;

/// The fields of a body that nothing has taken yet.
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    /// The fields of a JSON object; those that are null count as absent.
    pub(super) fn parse(body: &[u8]) -> Result<Fields, Refusal> {
        let value: Value = serde_json::from_slice(body)
            .map_err(|error| Refusal::invalid(format!("the body is not JSON: {error}")))?;
        match value {
            Value::Object(mut fields) => {
                fields.retain(|_, value| !value.is_null());
                Ok(Fields(fields))
            }
            other => Err(Refusal::invalid(format!(
                "the body: found {}, needs an object",
                shown(&other)
            ))),
        }
    }

    /// Takes a field as it is.
    pub(super) fn value(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    /// Takes a field of this type, which the message describes as `needed`.
    pub(super) fn take<T: DeserializeOwned>(
        &mut self,
        name: &str,
        needed: &str,
    ) -> Result<Option<T>, Refusal> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        let refuse = Refusal::field(name, shown(&value), needed);
        serde_json::from_value(value).map(Some).map_err(|_| refuse)
    }

    /// Takes a count.
    pub(super) fn count(&mut self, name: &str) -> Result<Option<usize>, Refusal> {
        self.take(name, "a number of at least 0")
    }

    /// Takes a number.
    pub(super) fn number(&mut self, name: &str) -> Result<Option<f64>, Refusal> {
        self.take(name, "a number")
    }

    /// Takes a yes or no; absent is no.
    pub(super) fn flag(&mut self, name: &str) -> Result<bool, Refusal> {
        Ok(self.take(name, "true or false")?.unwrap_or(false))
    }

    /// Refuses what is left, unless it changes no answer.
    pub(super) fn finish(self) -> Result<(), Refusal> {
        for (name, value) in &self.0 {
            match is_without_effect(name, value) {
                Some(true) => {}
                Some(false) => {
                    let message = format!("{name}: this server cannot honour {}", shown(value));
                    return Err(Refusal::invalid(message).about(name).code("unsupported"));
                }
                None => {
                    let message = format!("{name}: unknown field");
                    return Err(Refusal::invalid(message).about(name).code("unknown_field"));
                }
            }
        }
        Ok(())
    }
}

/// Whether an answer that ignores this field is what the client asked for; `None` for a field that OpenAI's interface lacks.
fn is_without_effect(name: &str, value: &Value) -> Option<bool> {
    let is_empty = value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(Map::is_empty)
        || value.as_str().is_some_and(str::is_empty);
    let is_word = |words: &[&str]| value.as_str().is_some_and(|word| words.contains(&word));
    match name {
        // They describe the client, or say how a provider stores and bills.
        "user"
        | "metadata"
        | "safety_identifier"
        | "prompt_cache_key"
        | "prompt_cache_retention"
        | "parallel_tool_calls" => Some(true),
        "tools" | "functions" | "logit_bias" | "suffix" => Some(is_empty),
        "tool_choice" | "function_call" => Some(is_word(&["none", "auto"])),
        "presence_penalty" | "frequency_penalty" => Some(value.as_f64() == Some(0.0)),
        "response_format" => Some(value["type"] == "text"),
        "modalities" => Some(*value == serde_json::json!(["text"])),
        "service_tier" => Some(is_word(&["auto", "default"])),
        "store" => Some(*value == false),
        "best_of" => Some(*value == 1),
        "audio" | "prediction" | "reasoning_effort" | "verbosity" | "web_search_options"
        | "moderation" => Some(false),
        _ => None,
    }
}

/// A value in a message: shortened, because a client wrote it.
pub(super) fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(body: &str) -> Result<(), String> {
        let fields = Fields::parse(body.as_bytes()).and_then(Fields::finish);
        fields.map_err(|refusal| {
            let error = &refusal.json()["error"];
            format!("{} {}", error["code"], error["message"])
        })
    }

    #[test]
    fn what_changes_no_answer_is_accepted_and_all_else_is_refused_by_name() {
        let neutral = r#"{"user": "me", "tools": [], "logit_bias": {}, "presence_penalty": 0,
            "response_format": {"type": "text"}, "store": false, "suffix": null, "audio": null}"#;
        assert_eq!(left(neutral), Ok(()));
        assert_eq!(
            left(r#"{"tools": [{"type": "function"}]}"#).unwrap_err(),
            r#""unsupported" "tools: this server cannot honour [{\"type\":\"function\"}]""#
        );
        assert!(left(r#"{"frequency_penalty": 0.1}"#).is_err());
        assert!(left(r#"{"response_format": {"type": "json_object"}}"#).is_err());
        assert_eq!(
            left(r#"{"temprature": 1}"#).unwrap_err(),
            r#""unknown_field" "temprature: unknown field""#
        );
        assert!(left("[1]").unwrap_err().contains("needs an object"));
    }

    #[test]
    fn a_long_value_is_shortened() {
        let long = Value::String("é".repeat(1000));
        assert_eq!(shown(&long).chars().count(), SHOWN + 3);
    }
}
