//! A mistake in a text of TOML, with its key and in TOML's words instead of Rust's.
//!
//! `place` finds the key at which the reader of the text stopped, and `words` rewrites what it reports.

mod place;
mod words;

use super::suggest::nearest;
use std::fmt;
use toml::de::Error;
use words::Report;

/// A mistake in a text of TOML. Displayed as `line 3: links.nics: found 4.5, needs a whole number`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mistake {
    /// The line, counted from 1, if it is known.
    pub line: Option<usize>,
    /// The dotted key that has the mistake, or the table that has an unknown one; empty if neither is known.
    pub key: String,
    /// What is wrong.
    pub reason: String,
    /// The value that was found, in words, where its key takes another.
    pub found: Option<String>,
    /// Whether the reader could not say what its key takes.
    pub is_vague: bool,
    /// The key that does not exist, where that is the mistake.
    pub unknown: Option<UnknownName>,
}

/// A key that does not exist in its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// The key.
    pub found: String,
    /// The keys that exist there.
    pub known: Vec<String>,
}

impl Mistake {
    /// The mistake that the reader of a text reports.
    pub fn of(text: &str, error: &Error) -> Mistake {
        let span = error.span();
        let start = span.as_ref().map(|span| span.start.min(text.len()));
        let line = start.map(|start| {
            let before = &text.as_bytes()[..start];
            before.split(|byte| *byte == b'\n').count()
        });
        let key = start.map_or_else(String::new, |start| place::key_at(text, start));
        let value = start.map_or("", |start| place::value_at(text, start));
        let written = span.and_then(|span| text.get(span)).unwrap_or_default();
        let mistake = Mistake {
            line,
            ..Mistake::default()
        };
        match words::report(error.message(), (written, value)) {
            Report::Value { found, needed } => Mistake {
                key,
                is_vague: needed.is_none(),
                reason: match needed {
                    Some(needed) => format!("found {found}, needs {needed}"),
                    None => format!("found {found}, needs another value"),
                },
                found: Some(found),
                ..mistake
            },
            Report::Word { found, known } => Mistake {
                // The word may be a key too, as in `tokenizer = { fiel = "x" }`.
                key: parent(&key, &found),
                reason: no_such_word(&found, &known),
                found: Some(format!("`{found}`")),
                ..mistake
            },
            Report::Key { found, known } => Mistake {
                key: parent(&key, &found),
                reason: no_such_key(&found, &known),
                unknown: Some(UnknownName { found, known }),
                ..mistake
            },
            Report::Missing { name } => Mistake {
                key: match key.is_empty() {
                    true => name,
                    false => format!("{key}.{name}"),
                },
                reason: "found no value, needs one".into(),
                ..mistake
            },
            Report::Other(reason) => {
                // What reads a value may name its key already, in part or in full.
                let last = key.rsplit('.').next().unwrap_or_default();
                let quoted = format!("{last} `{}`", value.trim_matches('"'));
                let own = |name: &str| reason.strip_prefix(name)?.strip_prefix(": ");
                let rest = own(&key).or_else(|| own(last)).or_else(|| own(&quoted));
                let rest = rest.unwrap_or(&reason);
                Mistake {
                    reason: rest.to_owned(),
                    key,
                    ..mistake
                }
            }
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.reason)
    }
}

/// The sentence about a key that does not exist: the key that was probably meant, or all that exist.
pub fn no_such_key(found: &str, known: &[String]) -> String {
    match near(found, known) {
        Some(near) => format!("found `{found}`, which does not exist here; did you mean `{near}`?"),
        None if known.is_empty() => format!("found `{found}`, needs no key"),
        None => format!("found `{found}`, needs one of {}", known.join(", ")),
    }
}

/// The sentence about a word that its key does not take.
pub fn no_such_word(found: &str, known: &[String]) -> String {
    let meant = match near(found, known) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => String::new(),
    };
    let needed = match known {
        [one] => one.clone(),
        _ => format!("one of {}", known.join(", ")),
    };
    format!("found `{found}`, needs {needed}{meant}")
}

fn near<'a>(found: &str, known: &'a [String]) -> Option<&'a str> {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    nearest(found, &known)
}

// The key without its last part, if that is the word in question.
fn parent(key: &str, word: &str) -> String {
    match key.strip_suffix(word) {
        Some(rest) if rest.is_empty() || rest.ends_with('.') => rest.trim_end_matches('.').into(),
        _ => key.to_owned(),
    }
}

#[cfg(test)]
mod tests;
