//! A mistake in a text of TOML, with its key and in TOML's words instead of Rust's.

use toml::{
    Spanned,
    de::{DeTable, DeValue, Error},
};

/// A mistake in a text of TOML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The line, counted from 1, if it is known.
    pub line: Option<usize>,
    /// What is wrong, with the key of a value that has another type than its key takes.
    pub reason: String,
}

impl Mistake {
    /// The mistake that the reader of a text reports.
    pub fn of(text: &str, error: &Error) -> Mistake {
        let start = error.span().map(|span| span.start.min(text.len()));
        let line = start.map(|start| {
            text.as_bytes()[..start]
                .split(|byte| *byte == b'\n')
                .count()
        });
        let message = error.message().trim().replace('\n', " ");
        let reason = match (
            worded(&message),
            start.and_then(|start| key_at(text, start)),
        ) {
            (Some(reason), Some(key)) => format!("{key}: {reason}"),
            (Some(reason), None) => reason,
            (None, _) => message,
        };
        Mistake { line, reason }
    }
}

/// The dotted key of the innermost value at an offset of the text.
fn key_at(text: &str, at: usize) -> Option<String> {
    let table = DeTable::parse(text).ok()?;
    in_table(table.get_ref(), at)
}

fn in_table(table: &DeTable<'_>, at: usize) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let key = key.get_ref();
        let within = within(value, at)?;
        let separator = if within.is_empty() || within.starts_with('[') {
            ""
        } else {
            "."
        };
        Some(format!("{key}{separator}{within}"))
    })
}

/// The rest of the key within a value; `None` if the offset is elsewhere.
fn within(value: &Spanned<DeValue<'_>>, at: usize) -> Option<String> {
    // The values of a table that has a header of its own lie outside its span.
    let inner = match value.get_ref() {
        DeValue::Table(table) => in_table(table, at),
        DeValue::Array(values) => values.iter().enumerate().find_map(|(index, value)| {
            let within = within(value, at)?;
            let separator = if within.is_empty() || within.starts_with('[') {
                ""
            } else {
                "."
            };
            Some(format!("[{index}]{separator}{within}"))
        }),
        _ => None,
    };
    inner.or_else(|| value.span().contains(&at).then(String::new))
}

/// A report of serde's about a type in TOML's words; `None` for another report.
fn worded(message: &str) -> Option<String> {
    let types = ["invalid type: ", "invalid value: "];
    let rest = types.iter().find_map(|kind| message.strip_prefix(kind))?;
    let (found, needed) = rest.rsplit_once(", expected ")?;
    let found = match found {
        "sequence" => "a list".to_owned(),
        "map" => "a table".to_owned(),
        found => ["string", "integer", "floating point", "boolean"]
            .iter()
            .find_map(|kind| found.strip_prefix(kind))
            .unwrap_or(found)
            .trim()
            .replace('`', ""),
    };
    let needed = match needed {
        "u64" | "usize" => "a whole number of at least 0",
        "u32" => "a whole number from 0 to 4294967295",
        "u16" => "a whole number from 0 to 65535",
        "u8" => "a whole number from 0 to 255",
        "i64" | "isize" => "a whole number",
        "f64" | "f32" => "a number",
        "a boolean" => "true or false",
        "a string" => "a text in quotes",
        "path string" => "a path in quotes",
        "a sequence" => "a list",
        "a map" => "a table",
        needed if needed.starts_with("struct ") => "a table",
        needed => needed,
    };
    Some(format!("found {found}, needs {needed}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only whether it can be read counts")]
    struct Outer {
        steps: Option<usize>,
        share: Option<f64>,
        inner: Option<Inner>,
        points: Option<Vec<[f64; 2]>>,
        many: Option<Vec<Inner>>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only whether it can be read counts")]
    struct Inner {
        flag: bool,
    }

    fn mistake(text: &str) -> (Option<usize>, String) {
        let error = toml::from_str::<Outer>(text).unwrap_err();
        let Mistake { line, reason } = Mistake::of(text, &error);
        (line, reason)
    }

    #[test]
    fn a_value_of_another_type_is_named_by_its_key() {
        for (text, line, needed) in [
            (
                "steps = \"x\"",
                1,
                "steps: found \"x\", needs a whole number of at least 0",
            ),
            (
                "\nsteps = -1",
                2,
                "steps: found -1, needs a whole number of at least 0",
            ),
            (
                "steps = 1.5",
                1,
                "steps: found 1.5, needs a whole number of at least 0",
            ),
            ("share = [1]", 1, "share: found a list, needs a number"),
            ("inner = 3", 1, "inner: found 3, needs a table"),
            (
                "[inner]\nflag = \"yes\"",
                2,
                "inner.flag: found \"yes\", needs true or false",
            ),
            (
                "inner = { flag = 1 }",
                1,
                "inner.flag: found 1, needs true or false",
            ),
            (
                "[[many]]\nflag = true\n[[many]]\nflag = 0",
                4,
                "many[1].flag: found 0, needs true or false",
            ),
            (
                "points = [[1, 2], [3, \"b\"]]",
                1,
                "points[1][1]: found \"b\", needs a number",
            ),
        ] {
            assert_eq!(mistake(text), (Some(line), needed.to_owned()), "{text}");
        }
    }

    #[test]
    fn other_mistakes_keep_their_words() {
        assert_eq!(
            mistake("stops = 1").1,
            "unknown field `stops`, expected one of `steps`, `share`, `inner`, `points`, `many`"
        );
        assert_eq!(mistake("\n\nsteps").0, Some(3));
        assert!(!mistake("\0\0").1.contains('\n'));
    }
}
