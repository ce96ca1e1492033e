//! Writes events to a file as they arrive.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::event::{self, Event, Lane};
use super::{FlowEnd, Span};
use crate::metrics::{Error, Result};

/// The line before the events.
pub(super) const HEAD: &str = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";

/// The line after them.
pub(super) const FOOT: &str = "]}";

/// A trace file, one event per line; only the names of streams are held in memory.
///
/// Events may arrive in any order and from any rank. Call [`TraceWriter::finish`] to learn of write errors; a
/// writer that is dropped closes the file as well as it can.
#[derive(Debug)]
pub struct TraceWriter {
    path: PathBuf,
    out: BufWriter<File>,
    /// For each rank, its streams and their identities.
    streams: BTreeMap<usize, BTreeMap<String, Lane>>,
    is_first: bool,
    is_closed: bool,
}

impl TraceWriter {
    /// Begins a file; an existing file of that name is truncated.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be created.
    pub fn create(path: &Path) -> Result<TraceWriter> {
        let file = File::create(path).map_err(|error| Error::io("creating", path, error))?;
        let (streams, path) = (BTreeMap::new(), path.to_path_buf());
        let mut writer = TraceWriter {
            path,
            out: BufWriter::new(file),
            streams,
            is_first: true,
            is_closed: false,
        };
        writer.attempt(|out| out.write_all(HEAD.as_bytes()))?;
        Ok(writer)
    }

    /// Adds a span.
    ///
    /// # Errors
    /// [`Error::SpanTime`] for times that cannot be drawn; [`Error::TooManyStreams`] for more ranks or streams than a file
    /// can number; [`Error::Io`] if the file cannot be written.
    pub fn span(&mut self, span: &Span) -> Result<()> {
        if !span.is_drawable() {
            let &Span {
                rank,
                start_us,
                duration_us,
                ref name,
                ..
            } = span;
            return Err(Error::SpanTime {
                name: name.clone(),
                rank,
                start_us,
                duration_us,
            });
        }
        let lane = self.lane(span.rank, &span.stream)?;
        self.event(&event::complete(lane, span))
    }

    /// Adds the start of an arrow, in the span that sends.
    ///
    /// # Errors
    /// As [`TraceWriter::span`].
    pub fn flow_start(&mut self, end: &FlowEnd) -> Result<()> {
        let lane = self.flow_lane(end)?;
        self.event(&event::flow_start(lane, end))
    }

    /// Adds the end of an arrow, in the span that receives.
    ///
    /// # Errors
    /// As [`TraceWriter::span`].
    pub fn flow_finish(&mut self, end: &FlowEnd) -> Result<()> {
        let lane = self.flow_lane(end)?;
        self.event(&event::flow_finish(lane, end))
    }

    /// Closes the file.
    ///
    /// # Errors
    /// [`Error::Io`] if the end of the file cannot be written.
    pub fn finish(mut self) -> Result<()> {
        self.close()
    }

    /// Adds an event that is already JSON.
    pub(super) fn raw(&mut self, json: &[u8]) -> Result<()> {
        let separator: &[u8] = if self.is_first { b"\n" } else { b",\n" };
        self.is_first = false;
        self.attempt(|out| out.write_all(separator).and_then(|()| out.write_all(json)))
    }

    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        let json = serde_json::to_vec(event)
            .map_err(|error| Error::io("writing", &self.path, error.into()))?;
        self.raw(&json)
    }

    fn flow_lane(&mut self, end: &FlowEnd) -> Result<Lane> {
        if !end.at_us.is_finite() {
            let (name, rank, start_us) = ("message".to_owned(), end.rank, end.at_us);
            return Err(Error::SpanTime {
                name,
                rank,
                start_us,
                duration_us: 0.0,
            });
        }
        self.lane(end.rank, &end.stream)
    }

    /// The identity of a stream; the first use also writes its name and that of its rank.
    fn lane(&mut self, rank: usize, stream: &str) -> Result<Lane> {
        let known = self.streams.get(&rank);
        if let Some(lane) = known.and_then(|streams| streams.get(stream)) {
            return Ok(*lane);
        }
        let is_new_rank = known.is_none();
        let lane = Lane::new(rank, known.map_or(0, BTreeMap::len))?;
        if is_new_rank {
            event::rank_names(lane)
                .iter()
                .try_for_each(|event| self.event(event))?;
        }
        event::stream_names(lane, stream)
            .iter()
            .try_for_each(|event| self.event(event))?;
        self.streams
            .entry(rank)
            .or_default()
            .insert(stream.to_owned(), lane);
        Ok(lane)
    }

    fn close(&mut self) -> Result<()> {
        self.is_closed = true;
        self.attempt(|out| writeln!(out, "\n{FOOT}").and_then(|()| out.flush()))
    }

    fn attempt(
        &mut self,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<()> {
        write(&mut self.out).map_err(|error| Error::io("writing", &self.path, error))
    }
}

impl Drop for TraceWriter {
    fn drop(&mut self) {
        if !self.is_closed {
            // Nobody is left to receive an error here; `finish` reports it.
            let _ = self.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::FlowId;
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn events(path: &Path) -> Vec<Value> {
        let trace: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        trace["traceEvents"].as_array().unwrap().clone()
    }

    fn of_kind<'a>(events: &'a [Value], ph: &str) -> Vec<&'a Value> {
        events.iter().filter(|event| event["ph"] == ph).collect()
    }

    #[test]
    fn ranks_and_streams_are_named_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        let mut writer = TraceWriter::create(&path).unwrap();
        for (rank, stream) in [
            (1, "compute"),
            (0, "compute"),
            (1, "tensor"),
            (1, "compute"),
        ] {
            writer
                .span(&Span::new(rank, stream, "work", 1.0, 2.0))
                .unwrap();
        }
        writer.finish().unwrap();
        let events = events(&path);
        let names: Vec<&Value> = of_kind(&events, "M")
            .iter()
            .map(|event| &event["args"]["name"])
            .collect();
        let names: Vec<&str> = names.into_iter().filter_map(Value::as_str).collect();
        assert_eq!(names, ["rank 1", "compute", "rank 0", "compute", "tensor"]);
        let spans = of_kind(&events, "X");
        assert_eq!(spans.len(), 4);
        assert_eq!(
            (&spans[0]["pid"], &spans[0]["tid"]),
            (&spans[3]["pid"], &spans[3]["tid"])
        );
        assert_ne!(spans[0]["tid"], spans[1]["tid"]);
    }

    #[test]
    fn an_arrow_joins_two_ranks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        let end = |rank, at_us| FlowEnd {
            id: FlowId::new(0, 1, 0),
            rank,
            stream: "pipeline".into(),
            at_us,
        };
        let mut writer = TraceWriter::create(&path).unwrap();
        writer.flow_start(&end(0, 1.0)).unwrap();
        writer.flow_finish(&end(1, 2.0)).unwrap();
        assert!(matches!(
            writer.flow_start(&end(0, f64::NAN)),
            Err(Error::SpanTime { .. })
        ));
        drop(writer);
        let events = events(&path);
        let (start, finish) = (of_kind(&events, "s"), of_kind(&events, "f"));
        assert_eq!(start[0]["id"], finish[0]["id"]);
        assert_eq!(
            (&start[0]["pid"], &finish[0]["pid"]),
            (&1.into(), &2.into())
        );
    }

    #[test]
    fn an_empty_trace_is_json() {
        let file = tempfile::NamedTempFile::new().unwrap();
        TraceWriter::create(file.path()).unwrap().finish().unwrap();
        assert!(events(file.path()).is_empty());
    }

    #[test]
    fn impossible_spans_are_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = TraceWriter::create(file.path()).unwrap();
        let error = writer
            .span(&Span::new(2, "compute", "gemm", 5.0, -1.0))
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "trace: `gemm` on rank 2 starts at 5 us and lasts -1 us, needs finite times and a duration of at least 0"
        );
    }

    proptest! {
        #[test]
        fn any_names_give_json(name: String, stream: String, key: String, value: String, start in -1e15f64..1e15) {
            let file = tempfile::NamedTempFile::new().unwrap();
            let mut writer = TraceWriter::create(file.path()).unwrap();
            let span = Span::new(0, &stream, &name, start, 0.5).with(&key, value.clone()).with("other", f64::NAN);
            writer.span(&span).unwrap();
            writer.finish().unwrap();
            let events = events(file.path());
            let found = of_kind(&events, "X")[0];
            prop_assert_eq!(&found["name"], &Value::from(name));
            if key != "other" {
                prop_assert_eq!(&found["args"][&key], &Value::from(value));
            }
            // serde_json parses numbers to within a unit in the last place.
            prop_assert!((found["ts"].as_f64().unwrap() - start).abs() <= start.abs() * f64::EPSILON);
        }
    }
}
