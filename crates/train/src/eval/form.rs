//! The keys in which files write a question.

use super::MOST_CHOICES;
use crate::data::json_kind;
use serde_json::{Map, Value};

type Keys = Map<String, Value>;

/// What comes before each choice.
pub(super) fn context(keys: &Keys) -> Result<String, String> {
    let (key, value) = one_of(keys, ["context", "query", "question"])?;
    let text = text(value).map_err(|kind| format!("`{key}` is {kind}, needs a text"))?;
    Ok(match key {
        // The prompt with which lm-evaluation-harness asks ARC's questions.
        "question" => format!("Question: {text}\nAnswer:"),
        _ => text.to_owned(),
    })
}

/// The choices, and their labels if they have some.
pub(super) fn choices(keys: &Keys) -> Result<(Vec<String>, Vec<String>), String> {
    let (choices, labels) = match keys.get("choices") {
        Some(Value::Object(parts)) => (parts.get("text"), parts.get("label")),
        choices => (choices, None),
    };
    let Some(Value::Array(choices)) = choices else {
        let found = choices.map_or("no `choices`".to_owned(), |other| {
            format!("`choices` that are {}", json_kind(other))
        });
        return Err(format!(
            "found {found}, needs a list of 2 to {MOST_CHOICES} texts"
        ));
    };
    if !(2..=MOST_CHOICES).contains(&choices.len()) {
        let found = choices.len();
        return Err(format!("found {found} choices, needs 2 to {MOST_CHOICES}"));
    }
    let texts = |all: &[Value], what: &str| -> Result<Vec<String>, String> {
        let each = all
            .iter()
            .enumerate()
            .map(|(index, value)| match text(value) {
                Ok("") => Err(format!("{what} {index} is empty, needs a text")),
                Ok(text) => Ok(text.to_owned()),
                Err(kind) => Err(format!("{what} {index} is {kind}, needs a text")),
            });
        each.collect()
    };
    let choices = texts(choices, "choice")?;
    let labels = match labels {
        None => Vec::new(),
        Some(Value::Array(labels)) if labels.len() == choices.len() => texts(labels, "label")?,
        Some(other) => {
            let found = other.as_array().map_or(0, Vec::len);
            let needed = choices.len();
            return Err(format!(
                "found {found} labels, needs one for each of {needed} choices"
            ));
        }
    };
    Ok((choices, labels))
}

/// The index of the right choice.
pub(super) fn answer(keys: &Keys, choices: &[String], labels: &[String]) -> Result<usize, String> {
    let (key, value) = one_of(keys, ["answer", "gold", "answerKey"])?;
    let place = |all: &[String], text: &str| all.iter().position(|one| one == text);
    let last = choices.len() - 1;
    match value {
        Value::String(text) => place(labels, text)
            .or_else(|| place(choices, text))
            .ok_or_else(|| format!("`{key}` is {value}, which is neither a label nor a choice")),
        Value::Number(number) => number
            .as_u64()
            .and_then(|index| usize::try_from(index).ok())
            .filter(|index| *index <= last)
            .ok_or_else(|| format!("`{key}` is {number}, needs an index from 0 to {last}")),
        other => {
            let found = json_kind(other);
            Err(format!("`{key}` is {found}, needs an index or a text"))
        }
    }
}

fn text(value: &Value) -> Result<&str, &'static str> {
    value.as_str().ok_or_else(|| json_kind(value))
}

// The one of these keys that an object has.
fn one_of<'a>(
    keys: &'a Keys,
    names: [&'static str; 3],
) -> Result<(&'static str, &'a Value), String> {
    let found = names
        .iter()
        .filter_map(|name| Some((*name, keys.get(*name)?)));
    let found: Vec<_> = found.collect();
    match &found[..] {
        [one] => Ok(*one),
        [] => {
            let [first, second, third] = names;
            Err(format!(
                "found none of `{first}`, `{second}` and `{third}`, needs one of them"
            ))
        }
        several => {
            let several: Vec<String> = several
                .iter()
                .map(|(name, _)| format!("`{name}`"))
                .collect();
            Err(format!(
                "found {}, needs one of them",
                several.join(" and ")
            ))
        }
    }
}
