//! Documents in lines of JSON.

use std::fmt;
use std::io::{BufRead, BufReader, Read};

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::documents::{MOST_DOCUMENT_BYTES, Part, Sink, open};
use super::inputs::TokenizeInput;
use crate::data::{Error, Result};

/// Hands the text under `field` of every line that is not blank to `sink`.
pub(super) fn read(
    input: &TokenizeInput,
    field: &str,
    progress: &dyn Fn(u64),
    sink: Sink<'_>,
) -> Result<()> {
    let mut source = BufReader::new(open(input, progress)?);
    let mut line = Vec::new();
    for index in 0.. {
        line.clear();
        let most = MOST_DOCUMENT_BYTES as u64 + 1;
        let read = (&mut source).take(most).read_until(b'\n', &mut line);
        if read.map_err(|error| Error::io("reading", &input.path, error))? == 0 {
            break;
        }
        let text =
            of_line(&line, field).map_err(|reason| Error::line(&input.name(), index, reason))?;
        let Some(text) = text else { continue };
        if !sink(Part::whole(&text))? {
            break;
        }
    }
    Ok(())
}

fn of_line(line: &[u8], field: &str) -> Result<Option<String>, String> {
    if line.len() > MOST_DOCUMENT_BYTES {
        return Err(format!(
            "found more than {MOST_DOCUMENT_BYTES} bytes, needs at most these"
        ));
    }
    let line = str::from_utf8(line)
        .map_err(|error| format!("not UTF-8 at byte {} of the line", error.valid_up_to()))?;
    if line.trim().is_empty() {
        return Ok(None);
    }
    let mut parser = serde_json::Deserializer::from_str(line);
    let text = Field(field).deserialize(&mut parser);
    let text = text.and_then(|text| parser.end().map(|()| text));
    text.map(Some).map_err(|error| reason(&error))
}

// The parser counts a line as a text of its own, and says where in it even what concerns all of it.
pub(crate) fn reason(error: &serde_json::Error) -> String {
    let (text, column) = (error.to_string(), error.column());
    let place = format!(" at line {} column {column}", error.line());
    match text.strip_suffix(&place) {
        Some(reason) if error.is_data() => reason.to_owned(),
        Some(reason) => format!("{reason} at column {column}"),
        None => text,
    }
}

/// The text under one key of an object; everything else in it is passed over without being kept.
struct Field<'f>(&'f str);

impl<'de> DeserializeSeed<'de> for Field<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<String, D::Error> {
        parser.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Field<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with a text under `{}`", self.0)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<String, A::Error> {
        let mut found = None;
        while let Some(key) = object.next_key::<String>()? {
            match key == self.0 {
                true => found = Some(object.next_value()?),
                false => drop(object.next_value::<IgnoredAny>()?),
            }
        }
        found.ok_or_else(|| {
            let field = self.0;
            A::Error::custom(format_args!(
                "found no `{field}`, needs one; --field names another key"
            ))
        })
    }
}
