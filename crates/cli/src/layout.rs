//! Text laid out for a terminal: lines end between words.

use hal::environment::table::COLUMNS;
use std::{
    borrow::Cow,
    io::{IsTerminal, stderr, stdout},
    os::fd::AsFd,
};

/// The narrowest terminal for which text is laid out; a narrower one breaks lines by itself.
const NARROWEST: usize = 20;

/// Spaces before what continues a line, beyond those before the line.
const INDENT: usize = 2;

/// Spaces before a line that mean that it continues another, and that its own continuation needs no more of them.
const PARAGRAPH: usize = 4;

/// Words that stay on the line of the number before them.
const UNITS: [&str; 20] = [
    "s", "ms", "us", "min", "h", "%", "B", "KiB", "MiB", "GiB", "nats", "tokens", "tokens/s",
    "flop/s", "Mflop/s", "Gflop/s", "Tflop/s", "Pflop/s", "GB/s", "left",
];

/// The columns of the terminal that shows results; `None` where something else reads them.
pub(crate) fn of_results() -> Option<usize> {
    of(&stdout())
}

/// The columns of the terminal that shows notes and errors; `None` where something else reads them.
pub(crate) fn of_notes() -> Option<usize> {
    of(&stderr())
}

// A terminal that does not know its width, as over a serial line, has that of the variable.
fn of(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(stream).ok();
    let columns = size.map(|size| usize::from(size.ws_col));
    let stated = || COLUMNS.read()?.parse().ok();
    let columns = columns.filter(|columns| *columns > 0).or_else(stated)?;
    Some(columns).filter(|columns| *columns >= NARROWEST)
}

/// Breaks lines that are wider than `columns`, between words. The rest of a line is indented or, in a table, begins below the
/// last cell. A word that is wider stays whole, and without `columns` so does the text.
pub(crate) fn wrapped(text: &str, columns: Option<usize>) -> Cow<'_, str> {
    let Some(columns) = columns else {
        return text.into();
    };
    if text.lines().all(|line| width(line) <= columns) {
        return text.into();
    }
    let mut lines = Vec::new();
    for line in text.split('\n') {
        match width(line) <= columns {
            true => lines.push(line.to_owned()),
            false => wrap(line, columns, &mut lines),
        }
    }
    lines.join("\n").into()
}

fn width(text: &str) -> usize {
    text.chars().count()
}

fn wrap(line: &str, columns: usize, lines: &mut Vec<String>) {
    let begin = begin(line);
    let mut wrapping = Wrapping {
        begin,
        columns,
        current: begin.to_owned(),
        next: None,
    };
    let rest = &line[begin.len()..];
    // A row of a table breaks between its cells.
    let is_row = rest
        .trim()
        .split("  ")
        .filter(|cell| !cell.is_empty())
        .count()
        > 2;
    for (gap, cell) in split(rest, if is_row { "  " } else { " " }) {
        match wrapping.fits_a_line(cell) {
            true => wrapping.add(gap, cell, lines),
            false => split(&format!("{gap}{cell}"), " ")
                .for_each(|(gap, word)| wrapping.add(gap, word, lines)),
        }
    }
    lines.push(wrapping.current.trim_end().to_owned());
}

/// A line that is broken where the next piece does not fit.
struct Wrapping<'a> {
    begin: &'a str,
    columns: usize,
    current: String,
    // What comes before the pieces of a further line.
    next: Option<String>,
}

impl Wrapping<'_> {
    fn add(&mut self, gap: &str, piece: &str, lines: &mut Vec<String>) {
        let before = self.next.as_deref().unwrap_or(self.begin);
        let fits = width(&self.current) + width(gap) + width(piece) <= self.columns;
        if fits || width(&self.current) <= width(before) {
            self.current += gap;
            self.current += piece;
            return;
        }
        let found = continuation(self.begin, &self.current, self.columns);
        let next = self.next.get_or_insert(found);
        let whole = std::mem::replace(&mut self.current, format!("{next}{piece}"));
        lines.push(whole.trim_end().to_owned());
    }

    fn fits_a_line(&self, piece: &str) -> bool {
        let found = || continuation(self.begin, &self.current, self.columns);
        let before = self.next.clone().unwrap_or_else(found);
        width(&before) + width(piece) <= self.columns
    }
}

// Splits a text wherever it has the spaces `gap`. Yields each piece with all of the spaces before it; a number and its unit are
// one piece.
fn split<'a>(text: &'a str, gap: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let spaces = rest.len() - rest.trim_start_matches(' ').len();
        let (before, piece) = rest.split_at(spaces);
        let mut end = piece.find(gap).unwrap_or(piece.len());
        if let Some(unit) = piece[end..].strip_prefix(' ').filter(|_| gap == " ") {
            let unit = unit.split(' ').next().unwrap_or_default();
            let is_number = piece[..end].ends_with(|letter: char| letter.is_ascii_digit());
            let is_unit = UNITS.contains(&unit.trim_end_matches([',', ';', ':', '.', ')']));
            if is_number && is_unit {
                end += 1 + unit.len();
            }
        }
        let (piece, after) = piece.split_at(end);
        rest = after;
        (!before.is_empty() || !piece.is_empty()).then_some((before, piece))
    })
}

// What stands before the first word and belongs before every line: spaces, and the mark of a comment or of a quotation.
fn begin(line: &str) -> &str {
    let words = line.trim_start_matches(' ');
    let spaces = line.len() - words.len();
    let mark = ["# ", "| "].iter().find(|mark| words.starts_with(**mark));
    &line[..spaces + mark.map_or(0, |mark| mark.len())]
}

// What comes before the words that did not fit.
fn continuation(begin: &str, first: &str, columns: usize) -> String {
    if !begin.trim().is_empty() {
        return begin.to_owned();
    }
    let text = &first[begin.len()..];
    // The last cell of a row, or the words behind a name.
    let cell = text
        .rfind("  ")
        .map(|at| width(begin) + width(&text[..at]) + 2);
    let indent = match cell {
        Some(cell) if cell <= columns * 5 / 8 => cell,
        // A paragraph that is indented as a whole.
        _ if begin.len() >= PARAGRAPH => begin.len(),
        _ => begin.len() + INDENT,
    };
    " ".repeat(indent)
}

#[cfg(test)]
mod tests;
