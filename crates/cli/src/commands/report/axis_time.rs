//! How long the collectives of a traced step took on each axis, from trace.json.

use hal::files;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// The longest trace that is read: its values in memory are several times as long.
const MOST_BYTES: u64 = 512 << 20;

/// The stream on which the model computes.
const COMPUTE: &str = "compute";

/// Seconds of a step on one axis, the mean of its ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct AxisTime {
    /// In which a collective ran, waits for other ranks included.
    pub(super) total_s: f64,
    /// Of these, beside compute.
    pub(super) hidden_s: f64,
}

/// The traced step of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TracedStep {
    /// From the first work to the last.
    pub(super) step_s: f64,
    /// By axis.
    pub(super) axes: BTreeMap<String, AxisTime>,
}

/// A piece of work of one rank.
struct Work {
    rank: u64,
    is_compute: bool,
    axis: Option<String>,
    begin_us: f64,
    end_us: f64,
}

impl TracedStep {
    /// The step of a trace; `None` if there is no trace that names the axes of its collectives.
    pub(super) fn read(path: &Path) -> Option<TracedStep> {
        let value: Value = serde_json::from_slice(&files::read(path, MOST_BYTES).ok()?).ok()?;
        let step = TracedStep::of(&works(value.get("traceEvents")?.as_array()?));
        (!step.axes.is_empty()).then_some(step)
    }

    fn of(works: &[Work]) -> TracedStep {
        let ranks: BTreeSet<u64> = works.iter().map(|work| work.rank).collect();
        let num_ranks = ranks.len().max(1) as f64;
        let mut step = TracedStep::default();
        let (mut begin, mut end) = (f64::INFINITY, f64::NEG_INFINITY);
        for rank in ranks {
            let own = || works.iter().filter(|work| work.rank == rank);
            let compute = own().filter(|work| work.is_compute && work.axis.is_none());
            let busy = merged(compute.map(|work| (work.begin_us, work.end_us)).collect());
            let mut axes: BTreeMap<&String, Vec<(f64, f64)>> = BTreeMap::new();
            for work in own() {
                (begin, end) = (begin.min(work.begin_us), end.max(work.end_us));
                if let Some(axis) = &work.axis {
                    let of_axis = axes.entry(axis).or_default();
                    of_axis.push((work.begin_us, work.end_us));
                }
            }
            // Collectives of an axis that run at the same time, on several streams, count once.
            for (axis, intervals) in axes {
                let time = step.axes.entry(axis.clone()).or_default();
                for interval in merged(intervals) {
                    time.total_s += (interval.1 - interval.0) * 1e-6 / num_ranks;
                    time.hidden_s += overlap(&busy, interval) * 1e-6 / num_ranks;
                }
            }
        }
        step.step_s = (end - begin).max(0.0) * 1e-6;
        step
    }
}

fn works(events: &[Value]) -> Vec<Work> {
    let lane = |event: &Value| (event["pid"].as_u64(), event["tid"].as_u64());
    let named = events.iter().filter(|event| event["name"] == "thread_name");
    let streams: BTreeMap<_, _> = named
        .map(|event| (lane(event), event["args"]["name"].as_str()))
        .collect();
    let work = |event: &Value| {
        let begin_us = event["ts"].as_f64()?;
        Some(Work {
            rank: event["pid"].as_u64()?,
            is_compute: streams.get(&lane(event)) == Some(&Some(COMPUTE)),
            axis: event["args"]["group"].as_str().and_then(axis),
            begin_us,
            end_us: begin_us + event["dur"].as_f64()?,
        })
    };
    let drawn = events.iter().filter(|event| event["ph"] == "X");
    drawn.filter_map(work).collect()
}

// Of a group's name, such as `axis x (main)`; groups over several axes are no axis.
fn axis(group: &str) -> Option<String> {
    let name = group.strip_prefix("axis ")?;
    name.split_whitespace().next().map(str::to_owned)
}

// Intervals in their order, without overlaps.
fn merged(mut intervals: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    intervals.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut merged: Vec<(f64, f64)> = Vec::new();
    for (begin, end) in intervals {
        match merged.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((begin, end)),
        }
    }
    merged
}

// How much of an interval lies in these, which are in their order.
fn overlap(busy: &[(f64, f64)], (begin, end): (f64, f64)) -> f64 {
    let first = busy.partition_point(|interval| interval.1 <= begin);
    let inside = busy[first..].iter().take_while(|interval| interval.0 < end);
    inside
        .map(|interval| interval.1.min(end) - interval.0.max(begin))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use train::metrics::trace::{Span, TraceWriter};

    #[test]
    fn communication_beside_compute_is_hidden() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.json");
        let mut writer = TraceWriter::create(&path).unwrap();
        let x = "axis x (main)";
        for rank in 0..2 {
            for (stream, name, start_us, duration_us, group) in [
                ("compute", "matmul", 0.0, 4e6, None),
                ("compute", "all_reduce", 4e6, 1e6, Some(x)),
                ("compute", "matmul", 5e6, 1e6, None),
                ("tensor all-reduce", "all_reduce", 3e6, 2.5e6, Some(x)),
                (
                    "reduce gradients",
                    "all_reduce",
                    7e6,
                    1e6,
                    Some("axis data (bucket)"),
                ),
            ] {
                let span = Span::new(rank, stream, name, start_us, duration_us);
                let span = match group {
                    Some(group) => span.with("group", group),
                    None => span,
                };
                writer.span(&span).unwrap();
            }
        }
        writer.finish().unwrap();
        let step = TracedStep::read(&path).unwrap();
        assert!((step.step_s - 8.0).abs() < 1e-9);
        let near = |axis: &str, total: f64, hidden: f64| {
            let time = step.axes[axis];
            (time.total_s - total).abs() < 1e-9 && (time.hidden_s - hidden).abs() < 1e-9
        };
        assert!(near("x", 2.5, 1.5) && near("data", 1.0, 0.0), "{step:?}");
        assert_eq!(TracedStep::read(&dir.path().join("none")), None);
    }
}
