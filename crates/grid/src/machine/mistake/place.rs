//! The key at an offset of a text of TOML.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// The dotted key of the innermost key or value at an offset of the text; empty if there is none.
pub(super) fn key_at(text: &str, at: usize) -> String {
    match DeTable::parse(text) {
        Ok(table) => in_table(table.get_ref(), at).unwrap_or_default(),
        Err(_) => in_line(text, at),
    }
}

/// What stands behind `=` on the line at an offset, without a comment; the line if nothing does.
pub(super) fn value_at(text: &str, at: usize) -> &str {
    let begin = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let line = text[begin..].lines().next().unwrap_or_default();
    let line = line.split_once(" #").map_or(line, |(line, _)| line);
    line.split_once('=').map_or(line, |(_, value)| value).trim()
}

fn in_table(table: &DeTable<'_>, at: usize) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let own = key.span().contains(&at).then(String::new);
        let within = within(value, at).or(own)?;
        Some(joined(key.get_ref(), &within))
    })
}

/// The rest of the key within a value; `None` if the offset is elsewhere.
fn within(value: &Spanned<DeValue<'_>>, at: usize) -> Option<String> {
    // The values of a table that has a header of its own lie outside its span.
    let inner = match value.get_ref() {
        DeValue::Table(table) => in_table(table, at),
        DeValue::Array(values) => values
            .iter()
            .enumerate()
            .find_map(|(index, value)| Some(joined(&format!("[{index}]"), &within(value, at)?))),
        _ => None,
    };
    inner.or_else(|| value.span().contains(&at).then(String::new))
}

fn joined(key: &str, rest: &str) -> String {
    match rest.is_empty() || rest.starts_with('[') {
        true => format!("{key}{rest}"),
        false => format!("{key}.{rest}"),
    }
}

// Of a text that is not TOML: the key before `=` on the line, below the header above it.
fn in_line(text: &str, at: usize) -> String {
    let begin = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let line = text[begin..].lines().next().unwrap_or_default().trim();
    if let Some(own) = header(line) {
        return own.to_owned();
    }
    let above = text[..begin]
        .lines()
        .rev()
        .find_map(|line| header(line.trim()));
    let table = above.unwrap_or_default();
    let key = line.split_once('=').map_or(line, |(key, _)| key).trim();
    let is_key = !key.is_empty() && key.chars().all(is_bare);
    match (table, is_key) {
        ("", true) => key.to_owned(),
        (table, true) => format!("{table}.{key}"),
        (table, false) => table.to_owned(),
    }
}

fn header(line: &str) -> Option<&str> {
    let inner = line.strip_prefix('[')?.trim_start_matches('[');
    let name = inner.split(']').next()?.trim();
    let is_name = !name.is_empty() && name.chars().all(is_bare);
    (is_name && inner.contains(']')).then_some(name)
}

fn is_bare(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.')
}
