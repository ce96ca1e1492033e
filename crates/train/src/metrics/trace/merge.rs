//! Joins the traces of several processes.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::de::IgnoredAny;

use super::TraceWriter;
use super::writer::{FOOT, HEAD};
use crate::metrics::{Error, Result};

/// Writes the events of all `inputs` to `output`, one per line.
///
/// The inputs are files of [`TraceWriter`] on one clock, each rank in one of them. An input whose process was
/// killed is read as far as it is complete.
///
/// # Errors
/// [`Error::Line`] for a line, other than a file's last, that is not an event; [`Error::Io`].
pub fn merge<P: AsRef<Path>>(inputs: &[P], output: &Path) -> Result<()> {
    let mut writer = TraceWriter::create(output)?;
    inputs
        .iter()
        .try_for_each(|input| append(input.as_ref(), &mut writer))?;
    writer.finish()
}

/// Copies the events of one file.
fn append(input: &Path, writer: &mut TraceWriter) -> Result<()> {
    let wrap = |error| Error::io("reading", input, error);
    let mut lines = BufReader::new(File::open(input).map_err(wrap)?)
        .split(b'\n')
        .enumerate()
        .peekable();
    while let Some((index, line)) = lines.next() {
        let line = line.map_err(wrap)?;
        let Some(event) = event(&line) else { continue };
        match serde_json::from_slice::<IgnoredAny>(event) {
            Ok(_) => writer.raw(event)?,
            // Incomplete, because the process was killed while writing.
            Err(_) if lines.peek().is_none() => {}
            Err(error) => return Err(no_event(input, index + 1, &error)),
        }
    }
    Ok(())
}

/// The event on a line, unless it is the line before or after all events.
fn event(line: &[u8]) -> Option<&[u8]> {
    let line = line.trim_ascii();
    let line = line.strip_suffix(b",").unwrap_or(line);
    let is_frame = line == HEAD.as_bytes() || line == FOOT.as_bytes();
    (!is_frame && !line.is_empty()).then_some(line)
}

fn no_event(path: &Path, line: usize, error: &serde_json::Error) -> Error {
    let (path, reason) = (path.to_path_buf(), error.to_string());
    Error::Line { path, line, reason }
}

#[cfg(test)]
mod tests {
    use super::super::Span;
    use super::*;
    use serde_json::Value;
    use std::path::PathBuf;

    fn written(folder: &Path, rank: usize, num_spans: usize) -> PathBuf {
        let path = folder.join(format!("trace-{rank}.json"));
        let mut writer = TraceWriter::create(&path).unwrap();
        for at in 0..num_spans {
            writer
                .span(&Span::new(rank, "compute", "a,\nb", at as f64, 1.0))
                .unwrap();
        }
        writer.finish().unwrap();
        path
    }

    fn spans_of(path: &Path) -> Vec<u64> {
        let trace: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let spans = trace["traceEvents"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|event| event["ph"] == "X");
        spans.map(|span| span["pid"].as_u64().unwrap()).collect()
    }

    #[test]
    fn every_event_of_every_file_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let inputs = [
            written(folder.path(), 0, 2),
            written(folder.path(), 1, 0),
            written(folder.path(), 2, 3),
        ];
        let output = folder.path().join("trace.json");
        merge(&inputs, &output).unwrap();
        assert_eq!(spans_of(&output), [1, 1, 3, 3, 3]);
        let joined = folder.path().join("joined.json");
        merge(&[&output], &joined).unwrap();
        assert_eq!(
            std::fs::read(&output).unwrap(),
            std::fs::read(&joined).unwrap()
        );
    }

    #[test]
    fn a_killed_process_leaves_what_it_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let input = written(folder.path(), 0, 3);
        let whole = std::fs::read(&input).unwrap();
        std::fs::write(&input, &whole[..whole.len() - 20]).unwrap();
        let output = folder.path().join("trace.json");
        merge(&[&input], &output).unwrap();
        assert_eq!(spans_of(&output), [1, 1]);
    }

    #[test]
    fn other_files_are_refused_with_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("poem.txt");
        std::fs::write(&input, "{}\nroses are red\nviolets\n").unwrap();
        let error = merge(&[&input], &folder.path().join("trace.json"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("poem.txt line 2: "), "{error}");
    }
}
