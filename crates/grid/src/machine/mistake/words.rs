//! What serde and the reader of TOML report, in TOML's words.

/// What is wrong with a text.
pub(super) enum Report {
    /// A value is of another kind than its key takes.
    Value {
        found: String,
        needed: Option<String>,
    },
    /// A value is none of the words that its key takes.
    Word { found: String, known: Vec<String> },
    /// A key does not exist.
    Key { found: String, known: Vec<String> },
    /// A key that has no default is not there.
    Missing { name: String },
    /// Anything else, in a sentence.
    Other(String),
}

/// The report in other words; `written` is the part of the text that it is about, and the value on its line.
pub(super) fn report(message: &str, (written, value): (&str, &str)) -> Report {
    let message = message.trim().replace('\n', " ");
    if let Some(found) = of_type(&message, written).or_else(|| of_form(&message, written)) {
        return found;
    }
    // serde names the word that it does not know and those that it does, all in back quotes.
    let quoted = message.split('`').skip(1).step_by(2).map(str::to_owned);
    let mut known: Vec<String> = quoted.collect();
    let first = |known: &mut Vec<String>| known.remove(0);
    match message.split_once('`').map(|(begin, _)| begin) {
        Some("unknown field ") => Report::Key {
            found: first(&mut known),
            known,
        },
        Some("unknown variant ") => Report::Word {
            found: first(&mut known),
            known,
        },
        Some("missing field ") => Report::Missing {
            name: first(&mut known),
        },
        _ => Report::Other(of_syntax(&message, value)),
    }
}

fn of_type(message: &str, written: &str) -> Option<Report> {
    let kinds = ["invalid type: ", "invalid value: ", "invalid length "];
    let rest = kinds.iter().find_map(|kind| message.strip_prefix(kind))?;
    let (found, needed) = rest.rsplit_once(", expected ")?;
    let is_long = found.ends_with(" as i128") || found.ends_with(" as u128");
    let found = match found {
        "sequence" => "an array".to_owned(),
        "map" => "a table".to_owned(),
        found if is_long || found.ends_with(" variant") => as_written(written),
        "1" => "1 value".into(),
        count if count.parse::<usize>().is_ok() => format!("{count} values"),
        found => ["string", "integer", "floating point", "boolean"]
            .iter()
            .find_map(|kind| found.strip_prefix(kind))
            .unwrap_or(found)
            .trim()
            .replace('`', ""),
    };
    let needed = match needed {
        _ if is_long => "a whole number of at most 9223372036854775807",
        "u64" | "usize" => "a whole number of at least 0",
        "u32" => "a whole number from 0 to 4294967295",
        "u16" => "a whole number from 0 to 65535",
        "u8" => "a whole number from 0 to 255",
        "i64" | "isize" => "a whole number",
        "f64" | "f32" => "a number",
        "a boolean" => "true or false",
        "path string" | "a borrowed string" => "a string",
        "a sequence" => "an array",
        "a map" => "a table",
        needed if needed.starts_with("struct ") => "a table",
        needed => needed,
    };
    let needed = match needed.strip_prefix("an array of length ") {
        Some(length) => format!("an array of {length} values"),
        None => needed.to_owned(),
    };
    let needed = Some(needed);
    Some(Report::Value { found, needed })
}

// A value that takes one of several forms, which the reader does not name.
fn of_form(message: &str, written: &str) -> Option<Report> {
    let is_form = [
        "wanted string or table",
        "wanted exactly 1 element",
        "data did not match any variant",
    ]
    .iter()
    .any(|form| message.starts_with(form));
    is_form.then(|| Report::Value {
        found: as_written(written),
        needed: None,
    })
}

// What the reader of the text reports; its `expected` is our `needs`.
fn of_syntax(message: &str, value: &str) -> String {
    let is_bare = value.starts_with(|letter: char| letter.is_ascii_alphabetic());
    match message {
        "duplicate key" => "found twice, needs it once".into(),
        _ if value.is_empty() => "found no value, needs one".into(),
        message if message.starts_with("key with no value") => {
            format!("found `{value}`, needs `=` between a key and its value")
        }
        message
            if is_bare
                && (message.starts_with("invalid boolean")
                    || message.starts_with("string values must be quoted")) =>
        {
            format!("found {value}, needs quotes around a string")
        }
        message => message.replace(", expected ", ", needs "),
    }
}

// A value as it is written, unless it is long.
fn as_written(written: &str) -> String {
    let written = written.trim();
    match written.chars().next() {
        Some('[') => "an array".into(),
        Some('{') => "a table".into(),
        None => "nothing".into(),
        _ => written.lines().next().unwrap_or_default().to_owned(),
    }
}
