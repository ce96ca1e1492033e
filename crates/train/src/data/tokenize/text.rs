//! Documents of plain text: a file, or each of its lines.
//!
//! A file is read twice if it is longer than a part: first for its hash, and to see that it is UTF-8, so that nothing of a file
//! that is left out has been written.

use std::io::Read;

use super::documents::{MOST_DOCUMENT_BYTES, Part, Sink, Skipped, open};
use super::duplicates::DocumentHash;
use super::inputs::TokenizeInput;
use crate::data::{Error, Result};

/// Bytes that are read at once.
const PART_BYTES: usize = 1 << 18;

/// Hands the file, or its lines, to `sink`.
pub(super) fn read(
    input: &TokenizeInput,
    splits_lines: bool,
    skipped: &mut Skipped,
    progress: &dyn Fn(u64),
    sink: Sink<'_>,
) -> Result<()> {
    let mut parts = Parts::new(input, progress)?;
    let first = parts.next();
    // A file of one part is in memory, and a longer one is read for its hash.
    let checked = match &first {
        Ok(_) if parts.is_at_end() => Ok(None),
        Ok(_) => hash(input).map(Some),
        Err(_) => Ok(None),
    };
    let (first, hash) = match (first, checked) {
        (Ok(first), Ok(hash)) => (first, hash),
        (Err(Error::InvalidUtf8 { .. }), _) | (_, Err(Error::InvalidUtf8 { .. }))
            if input.is_found =>
        {
            skipped.files += 1;
            progress(input.bytes.saturating_sub(parts.position));
            return Ok(());
        }
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    match splits_lines {
        true => lines(input, first, parts, sink),
        false => whole(first, parts, hash, sink),
    }
}

fn whole(first: String, mut parts: Parts<'_>, hash: Option<u128>, sink: Sink<'_>) -> Result<()> {
    let (mut text, mut begins) = (first, true);
    loop {
        let ends = parts.is_at_end();
        let part = Part {
            text: &text,
            begins,
            ends,
            hash,
        };
        if !sink(part)? || ends {
            return Ok(());
        }
        (text, begins) = (parts.next()?, false);
    }
}

fn lines(input: &TokenizeInput, first: String, mut parts: Parts<'_>, sink: Sink<'_>) -> Result<()> {
    let (mut text, mut number) = (first, 0);
    loop {
        let ends = parts.is_at_end();
        // The last line of a part may go on in the next.
        let complete = match ends {
            true => text.len(),
            false => text.rfind('\n').map_or(0, |end| end + 1),
        };
        for line in text[..complete].lines() {
            number += 1;
            if !sink(Part::whole(line))? {
                return Ok(());
            }
        }
        if ends {
            return Ok(());
        }
        text.drain(..complete);
        text += &parts.next()?;
        if text.len() > MOST_DOCUMENT_BYTES {
            let reason =
                format!("found more than {MOST_DOCUMENT_BYTES} bytes, needs at most these");
            return Err(Error::line(&input.name(), number, reason));
        }
    }
}

fn hash(input: &TokenizeInput) -> Result<u128> {
    let mut parts = Parts::new(input, &|_| ())?;
    let mut hash = DocumentHash::default();
    loop {
        hash.update(&parts.next()?);
        if parts.is_at_end() {
            return Ok(hash.finish());
        }
    }
}

/// The text of a file, part by part.
struct Parts<'a> {
    input: &'a TokenizeInput,
    source: Box<dyn Read + 'a>,
    /// Read, and not handed on: at most a part and one byte.
    bytes: Vec<u8>,
    /// Bytes of the text that were handed on.
    position: u64,
}

impl<'a> Parts<'a> {
    fn new(input: &'a TokenizeInput, progress: &'a dyn Fn(u64)) -> Result<Parts<'a>> {
        let mut parts = Parts {
            input,
            source: open(input, progress)?,
            bytes: Vec::new(),
            position: 0,
        };
        parts.fill()?;
        Ok(parts)
    }

    fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    // One byte more than a part shows whether another follows.
    fn fill(&mut self) -> Result<()> {
        let room = (PART_BYTES + 1 - self.bytes.len()) as u64;
        let read = (&mut self.source).take(room).read_to_end(&mut self.bytes);
        read.map_err(|error| Error::io("reading", &self.input.path, error))?;
        Ok(())
    }

    /// The next part, empty behind the last.
    fn next(&mut self) -> Result<String> {
        let is_last = self.bytes.len() <= PART_BYTES;
        let length = self.bytes.len().min(PART_BYTES);
        let length = match str::from_utf8(&self.bytes[..length]) {
            Ok(_) => length,
            // A character that the part cuts belongs to the next.
            Err(error) if error.error_len().is_none() && !is_last => error.valid_up_to(),
            Err(error) => {
                return Err(Error::InvalidUtf8 {
                    name: self.input.name(),
                    position: self.position as usize + error.valid_up_to(),
                });
            }
        };
        let rest = self.bytes.split_off(length);
        let part = std::mem::replace(&mut self.bytes, rest);
        self.position += length as u64;
        self.fill()?;
        // Checked above.
        Ok(String::from_utf8(part).unwrap_or_default())
    }
}
