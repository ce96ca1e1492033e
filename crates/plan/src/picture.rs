//! The trace of a simulated step, and its comparison with a measured one.

use crate::{Error, Outcome, Result, error::TraceError};
use hal::files;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    path::Path,
};
use tensor::trace::Span;
use train::metrics::trace::{Span as Bar, TraceWriter};

/// Number of rows in a comparison.
const SHOWN: usize = 16;

/// Writes the spans of a simulated step in the format of a run's trace.json, each stage under its live rank.
///
/// # Errors
/// [`Error::NoSpans`] if the step was simulated without them; [`Error::Train`] if the file cannot be written.
pub fn write_trace(outcome: &Outcome, path: &Path) -> Result<()> {
    if outcome.stages.iter().all(|stage| stage.spans.is_empty()) {
        return Err(Error::NoSpans);
    }
    let begin_us = outcome
        .stages
        .iter()
        .map(|stage| stage.begin_us())
        .fold(f64::INFINITY, f64::min);
    let written = || {
        let mut writer = TraceWriter::create(path)?;
        for stage in &outcome.stages {
            for span in &stage.spans {
                let bar = Bar::new(
                    stage.rank,
                    &span.stream,
                    span.name,
                    span.start_us - begin_us,
                    span.duration_us,
                );
                writer.span(&bar.with("bytes", span.bytes as f64))?;
            }
        }
        writer.finish()
    };
    written().map_err(|error| Error::Train(error.into()))
}

/// Microseconds per step by stream and name, averaged over its ranks.
pub type Totals = BTreeMap<(String, String), f64>;

/// The totals of a simulated step.
pub fn simulated(outcome: &Outcome) -> Totals {
    totals(
        outcome.stages.iter().flat_map(|stage| &stage.spans),
        outcome.stages.len().max(1) as f64,
    )
}

/// The totals of spans recorded over `number` steps or ranks.
pub fn totals<'a>(spans: impl IntoIterator<Item = &'a Span>, number: f64) -> Totals {
    let mut totals = Totals::new();
    for span in spans {
        *totals
            .entry((span.stream.clone(), span.name.into()))
            .or_default() += span.duration_us / number;
    }
    totals
}

/// The totals of a measured step, from a run's trace.json.
///
/// # Errors
/// [`Error::Trace`] if the file cannot be read or is not a trace.
pub fn measured(path: &Path) -> Result<Totals> {
    read(path).map_err(|source| {
        let path = path.into();
        Error::Trace { path, source }
    })
}

/// The longest trace of a step. Its values in memory are several times as long.
const MOST_TRACE_BYTES: u64 = 512 << 20;

fn read(path: &Path) -> Result<Totals, TraceError> {
    let value: Value = serde_json::from_slice(&files::read(path, MOST_TRACE_BYTES)?)?;
    let events = value.get("traceEvents").unwrap_or(&value).as_array();
    let events = events.ok_or(TraceError::NoEvents)?;
    let streams = streams(events);
    let mut totals = Totals::new();
    let mut ranks = BTreeSet::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        ranks.insert(event["pid"].as_u64());
        let stream = streams.get(&lane(event)).cloned().unwrap_or_default();
        let name = event["name"].as_str().unwrap_or_default().to_owned();
        *totals.entry((stream, name)).or_default() += event["dur"].as_f64().unwrap_or(0.0);
    }
    let ranks = ranks.len().max(1) as f64;
    totals.values_mut().for_each(|total| *total /= ranks);
    Ok(totals)
}

fn lane(event: &Value) -> (u64, u64) {
    (
        event["pid"].as_u64().unwrap_or(0),
        event["tid"].as_u64().unwrap_or(0),
    )
}

fn streams(events: &[Value]) -> BTreeMap<(u64, u64), String> {
    let named = events.iter().filter(|event| event["name"] == "thread_name");
    named
        .map(|event| {
            (
                lane(event),
                event["args"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            )
        })
        .collect()
}

/// A measured and a simulated step side by side, the largest differences first.
pub fn comparison(measured: &Totals, simulated: &Totals) -> String {
    let keys: BTreeSet<_> = measured.keys().chain(simulated.keys()).collect();
    let of = |totals: &Totals, key: &(String, String)| totals.get(key).copied().unwrap_or(0.0);
    let mut rows: Vec<_> = keys
        .into_iter()
        .map(|key| (key, of(measured, key), of(simulated, key)))
        .collect();
    rows.sort_by(|one, other| (other.2 - other.1).abs().total_cmp(&(one.2 - one.1).abs()));
    let mut text = format!(
        "{:<28}{:<24}{:>13}{:>13}{:>13}\n",
        "stream", "work", "measured", "simulated", "difference"
    );
    for ((stream, name), measured, simulated) in rows.iter().take(SHOWN) {
        let _ = writeln!(
            text,
            "{stream:<28}{name:<24}{:>10.3} ms{:>10.3} ms{:>+10.3} ms",
            measured / 1e3,
            simulated / 1e3,
            (simulated - measured) / 1e3
        );
    }
    let sum = |totals: &Totals| totals.values().sum::<f64>() / 1e3;
    let (measured, simulated) = (sum(measured), sum(simulated));
    let _ = writeln!(
        text,
        "{:<52}{measured:>10.3} ms{simulated:>10.3} ms{:>+10.3} ms",
        "all work of a rank, overlapped or not",
        simulated - measured
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_trace_reads_back_as_the_same_totals() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.json");
        let mut writer = TraceWriter::create(&path).unwrap();
        for rank in 0..2 {
            writer
                .span(&Bar::new(rank, "compute", "gemm", 1.0, 4.0))
                .unwrap();
            writer
                .span(&Bar::new(rank, "gather", "all_gather", 2.0, 3.0))
                .unwrap();
        }
        writer.finish().unwrap();
        let totals = measured(&path).unwrap();
        assert_eq!(totals[&("compute".into(), "gemm".into())], 4.0);
        assert_eq!(totals[&("gather".into(), "all_gather".into())], 3.0);
    }

    #[test]
    fn the_largest_difference_comes_first() {
        let totals = |gemm: f64, copy: f64| {
            Totals::from([
                (("c".into(), "gemm".into()), gemm),
                (("c".into(), "copy".into()), copy),
            ])
        };
        let text = comparison(&totals(1000.0, 2000.0), &totals(1100.0, 500.0));
        let second = text.lines().nth(1).unwrap();
        assert!(
            second.contains("copy") && second.contains("-1.500 ms"),
            "{text}"
        );
    }
}
