//! What is printed where: results to stdout, the rest to stderr. A closed pipe is never a panic.

use crate::{
    failure::{Failure, Outcome},
    layout,
};
use serde::Serialize;
use std::{
    borrow::Cow,
    io::{self, ErrorKind, IsTerminal, Write},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

/// Columns of comments in a configuration's file.
const WIDEST_COMMENT: usize = 100;

/// Whether another process prints for the job.
static SILENT: AtomicBool = AtomicBool::new(false);

/// Prints nothing from now on, because another process of the job prints.
pub(crate) fn silence() {
    SILENT.store(true, Ordering::Relaxed);
}

/// Prints again, because this process now has to report.
pub(crate) fn speak() {
    SILENT.store(false, Ordering::Relaxed);
}

/// Whether this process prints for the job; only it writes files that a command names.
pub(crate) fn speaks() -> bool {
    !is_silent()
}

fn is_silent() -> bool {
    SILENT.load(Ordering::Relaxed)
}

/// Prints lines for people. The work does not depend on whether anybody reads them.
pub(crate) fn note(text: &str) {
    if is_silent() {
        return;
    }
    let text = printable(text);
    let text = layout::wrapped(&text, layout::of_notes());
    writeln!(io::stderr().lock(), "{text}").ok();
}

/// Prints a result for people, in lines that fit the terminal.
pub(crate) fn result(text: &str) -> Outcome {
    print(&layout::wrapped(&printable(text), layout::of_results()))
}

/// Prints a result as it is, because its lines mean something: a format that programs read.
pub(crate) fn verbatim(text: &str) -> Outcome {
    print(&printable(text))
}

/// Prints the path of what was made, as it is: people copy it.
pub(crate) fn path(path: &Path) -> Outcome {
    verbatim(&path.display().to_string())
}

/// Prints a configuration, whose comments alone may have other lines than in a file.
pub(crate) fn toml(text: &str) -> Outcome {
    let Some(columns) = layout::of_results() else {
        return verbatim(text);
    };
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("# "), lines.last_mut()) {
            (Some(words), Some(comment)) if comment.starts_with("# ") => {
                *comment += " ";
                *comment += words;
            }
            _ => lines.push(line.to_owned()),
        }
    }
    let columns = Some(columns.min(WIDEST_COMMENT));
    let lines = lines.iter().map(|line| match line.starts_with('#') {
        true => layout::wrapped(line, columns),
        false => line.into(),
    });
    verbatim(&lines.collect::<Vec<_>>().join("\n"))
}

/// Prints a piece of text that a model writes, at once: as it is where a program reads it.
pub(crate) fn piece(text: &str) -> Outcome {
    if is_silent() || text.is_empty() {
        return Ok(());
    }
    let text = match io::stdout().is_terminal() {
        true => printable(text),
        false => text.into(),
    };
    let mut out = io::stdout().lock();
    write!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(refused)
}

/// The text without the characters that could move a terminal's cursor, change its state or reorder its letters: they are
/// written as in JSON. Names and texts in errors come from files that anyone may have made.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_command) {
        return text.into();
    }
    let mut printable = String::with_capacity(text.len() + 5);
    for letter in text.chars() {
        match is_command(letter) {
            true => printable += &format!("\\u{:04x}", u32::from(letter)),
            false => printable.push(letter),
        }
    }
    printable.into()
}

fn is_command(letter: char) -> bool {
    let reorders = matches!(
        letter,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    reorders || letter.is_control() && letter != '\n' && letter != '\t'
}

fn print(text: &str) -> Outcome {
    if is_silent() {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(refused)
}

/// Prints a result as one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> Outcome {
    let line = serde_json::to_string(value)
        .map_err(|error| Failure::run(format!("result as JSON: {error}")))?;
    verbatim(&line)
}

fn refused(error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::PipeClosed,
        _ => Failure::run(format!("stdout: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_commands_the_terminal() {
        assert!(matches!(printable("two\n\tlines, é, 漢"), Cow::Borrowed(_)));
        assert_eq!(
            printable("a\u{1b}[31m\r\u{7f}\u{9b}\u{202e}b"),
            "a\\u001b[31m\\u000d\\u007f\\u009b\\u202eb"
        );
        // What serde_json leaves as it is becomes an escape of the same character.
        let json = printable("\"\u{9b}\"").into_owned();
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), "\u{9b}");
    }
}
