//! Files of samples, a JSON object per line.

use std::path::Path;

use serde_json::{Map, Value};

use super::{MOST_TEXT_BYTES, text};
use crate::data::{Error, Result};

/// What one line holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Sample {
    /// `{"text": "..."}`: a document.
    Text(String),
    /// `{"prompt": "...", "completion": "..."}`: a text and its continuation.
    Completion {
        /// What is given.
        prompt: String,
        /// What is to be learnt.
        completion: String,
    },
    /// `{"messages": [{"role": "...", "content": "..."}, ...]}`: a chat.
    Chat(Chat),
    /// `{"prompt": "...", "chosen": "...", "rejected": "..."}`, or with lists of messages: two answers, of which one was preferred.
    Pair(Box<Pair>),
}

/// Two answers to the same, of which one was preferred to the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// The better one, with what both answer: a completion or a chat.
    pub chosen: Sample,
    /// The other one.
    pub rejected: Sample,
    /// Messages with which both chats begin; no answer among them counts.
    pub given: usize,
}

/// The messages of a chat, in their order, as a template reads them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chat {
    /// Objects, each with its `role`.
    pub messages: Vec<Map<String, Value>>,
    /// The tools that the messages may call, if the line lists any.
    pub tools: Option<Value>,
}

impl Chat {
    /// A message of this role: `system`, `user` or `assistant`.
    pub fn message(role: &str, content: &str) -> Map<String, Value> {
        let keys = [("role", role), ("content", content)];
        let keys = keys.map(|(key, text)| (key.to_owned(), Value::from(text)));
        keys.into_iter().collect()
    }
}

/// Reads every line that is not blank.
pub(super) fn read(path: &Path) -> Result<Vec<Sample>> {
    let text = text(path, MOST_TEXT_BYTES)?;
    let name = path.display().to_string();
    let lines = text.lines().enumerate();
    let samples: Vec<Sample> = lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(index, line)| parsed(line).map_err(|reason| Error::line(&name, index, reason)))
        .collect::<Result<_>>()?;
    match samples.is_empty() {
        true => Err(Error::Empty { name }),
        false => Ok(samples),
    }
}

const FORMS: &str =
    "needs `text`, `prompt` and `completion`, `messages`, or `chosen` and `rejected`";

fn parsed(line: &str) -> Result<Sample, String> {
    let value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let Value::Object(mut keys) = value else {
        return Err(format!("found {}, needs a JSON object", kind(&value)));
    };
    let has = |key| keys.contains_key(key);
    if has("chosen") || has("rejected") {
        return pair(&mut keys).map(|pair| Sample::Pair(Box::new(pair)));
    }
    match (
        has("text"),
        has("prompt") || has("completion"),
        has("messages"),
    ) {
        (true, false, false) => text_of(&mut keys, "text").map(Sample::Text),
        (false, true, false) => Ok(Sample::Completion {
            prompt: text_of(&mut keys, "prompt")?,
            completion: text_of(&mut keys, "completion")?,
        }),
        (false, false, true) => chat(&mut keys).map(Sample::Chat),
        _ => {
            let names: Vec<&str> = keys.keys().map(String::as_str).collect();
            Err(format!("found {}, {FORMS}", listed(&names)))
        }
    }
}

fn text_of(keys: &mut Map<String, Value>, key: &str) -> Result<String, String> {
    match keys.remove(key) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(format!("`{key}` is {}, needs a text", kind(&other))),
        None => Err(format!("found no `{key}`, {FORMS}")),
    }
}

/// Chats whose prompt is not listed have the messages with which both begin.
fn pair(keys: &mut Map<String, Value>) -> Result<Pair, String> {
    if ["chosen", "rejected"]
        .iter()
        .any(|key| matches!(keys.get(*key), Some(Value::String(_))))
    {
        let prompt = text_of(keys, "prompt")?;
        let completion = |completion| Sample::Completion {
            prompt: prompt.clone(),
            completion,
        };
        return Ok(Pair {
            chosen: completion(text_of(keys, "chosen")?),
            rejected: completion(text_of(keys, "rejected")?),
            given: 0,
        });
    }
    let prompt = match keys.contains_key("prompt") {
        true => messages_of(keys, "prompt")?,
        false => Vec::new(),
    };
    let (chosen, rejected) = (messages_of(keys, "chosen")?, messages_of(keys, "rejected")?);
    let alike = chosen.iter().zip(&rejected).take_while(|(a, b)| a == b);
    let given = match prompt.len() {
        0 => alike.count(),
        listed => listed,
    };
    let tools = keys.remove("tools");
    let chat = |answer| {
        Sample::Chat(Chat {
            messages: [&prompt[..], answer].concat(),
            tools: tools.clone(),
        })
    };
    Ok(Pair {
        chosen: chat(&chosen),
        rejected: chat(&rejected),
        given,
    })
}

fn chat(keys: &mut Map<String, Value>) -> Result<Chat, String> {
    Ok(Chat {
        messages: messages_of(keys, "messages")?,
        tools: keys.remove("tools"),
    })
}

fn messages_of(
    keys: &mut Map<String, Value>,
    key: &str,
) -> Result<Vec<Map<String, Value>>, String> {
    let messages = match keys.remove(key) {
        Some(Value::Array(messages)) if !messages.is_empty() => messages,
        other => {
            let found = other.map_or("nothing", |other| kind(&other));
            return Err(format!("`{key}` is {found}, needs a list of at least 1"));
        }
    };
    let message = |(index, message): (usize, Value)| match message {
        Value::Object(keys) if keys.get("role").is_some_and(Value::is_string) => Ok(keys),
        _ => Err(format!("message {} has no `role`", index + 1)),
    };
    messages.into_iter().enumerate().map(message).collect()
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => "no key".to_owned(),
        [one] => format!("the key {one}"),
        several => format!("the keys {}", several.join(", ")),
    }
}

/// What a value is, in a sentence.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(all) if all.is_empty() => "an empty list",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

impl Sample {
    /// Its texts as they stand in the line, without what a template adds.
    pub(in crate::data) fn texts(&self) -> Vec<&str> {
        match self {
            Sample::Text(text) => vec![text],
            Sample::Completion { prompt, completion } => vec![prompt, completion],
            Sample::Chat(chat) => {
                let contents = chat.messages.iter().flat_map(|message| message.values());
                contents.filter_map(Value::as_str).collect()
            }
            Sample::Pair(pair) => [pair.chosen.texts(), pair.rejected.texts()].concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn of(text: &str) -> Result<Vec<Sample>> {
        let file = tempfile::NamedTempFile::with_suffix(".jsonl").unwrap();
        fs::write(file.path(), text).unwrap();
        read(file.path())
    }

    #[test]
    fn each_form_is_read_and_blank_lines_are_not() {
        let found = of(concat!(
            "{\"text\": \"a\", \"source\": 3}\n\n",
            "{\"prompt\": \"1+1=\", \"completion\": \"2\"}\r\n",
            "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\", \"name\": \"x\"}]}",
        ))
        .unwrap();
        assert_eq!(found[0], Sample::Text("a".into()));
        let (prompt, completion) = ("1+1=".into(), "2".into());
        assert_eq!(found[1], Sample::Completion { prompt, completion });
        let Sample::Chat(chat) = &found[2] else {
            panic!("bug: a chat expected")
        };
        assert_eq!(chat.messages[0]["name"], "x");
        assert_eq!(found[2].texts(), ["hi", "x", "user"]);
    }

    #[test]
    fn pairs_share_what_they_answer() {
        let user = "{\"role\": \"user\", \"content\": \"2+3\"}";
        let says = |text: &str| format!("{{\"role\": \"assistant\", \"content\": \"{text}\"}}");
        let [right, wrong] = ["5", "6"].map(says);
        let found = of(&format!(
            concat!(
                "{{\"prompt\": \"2+3=\", \"chosen\": \"5\", \"rejected\": \"6\"}}\n",
                "{{\"prompt\": [{u}], \"chosen\": [{r}], \"rejected\": [{w}]}}\n",
                "{{\"chosen\": [{u}, {r}], \"rejected\": [{u}, {w}, {u}]}}\n",
            ),
            u = user,
            r = right,
            w = wrong,
        ))
        .unwrap();
        let pairs: Vec<&Pair> = found
            .iter()
            .map(|sample| match sample {
                Sample::Pair(pair) => &**pair,
                _ => panic!("bug: a pair expected"),
            })
            .collect();
        assert_eq!(found[0].texts(), ["2+3=", "5", "2+3=", "6"]);
        assert_eq!(pairs[1].chosen, pairs[2].chosen);
        let given: Vec<usize> = pairs.iter().map(|pair| pair.given).collect();
        assert_eq!(given, [0, 1, 1]);
    }

    #[test]
    fn a_line_that_is_no_sample_is_named() {
        let cases = [
            (
                "{\"a\": 1}",
                "line 2: found the key a, needs `text`, `prompt` and `completion`, `messages`, or `chosen` and `rejected`",
            ),
            ("{}", "line 2: found no key, needs `text`"),
            (
                "{\"text\": \"a\", \"messages\": []}",
                "line 2: found the keys messages, text, needs `text`",
            ),
            ("{\"text\": 3}", "line 2: `text` is a number, needs a text"),
            (
                "{\"prompt\": \"a\"}",
                "line 2: found no `completion`, needs",
            ),
            ("[1]", "line 2: found a list, needs a JSON object"),
            (
                "{\"messages\": []}",
                "line 2: `messages` is an empty list, needs a list of at least 1",
            ),
            (
                "{\"messages\": [{\"role\": \"a\"}, {}]}",
                "line 2: message 2 has no `role`",
            ),
            ("{\"text\"", "line 2: EOF while parsing"),
            (
                "{\"chosen\": \"a\", \"rejected\": \"b\"}",
                "line 2: found no `prompt`, needs",
            ),
            (
                "{\"prompt\": \"a\", \"chosen\": \"b\"}",
                "line 2: found no `rejected`, needs",
            ),
            (
                "{\"chosen\": [{\"role\": \"a\"}], \"rejected\": 3}",
                "line 2: `rejected` is a number, needs a list of at least 1",
            ),
        ];
        for (line, needed) in cases {
            let found = of(&format!("{{\"text\": \"a\"}}\n{line}\n"))
                .unwrap_err()
                .to_string();
            assert!(found.contains(needed), "{found}");
        }
        assert!(matches!(of("\n \n"), Err(Error::Empty { .. })));
        let deep = "[".repeat(100_000);
        assert!(
            of(&deep)
                .unwrap_err()
                .to_string()
                .contains("recursion limit")
        );
    }
}
