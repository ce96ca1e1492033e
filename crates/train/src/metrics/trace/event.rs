//! One line of the file.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Arg, FlowEnd, Span};
use crate::metrics::{Error, Result};

/// Streams that a rank may have.
const MAX_STREAMS: usize = 64;

/// Ranks that a trace may have.
const MAX_RANKS: usize = 1 << 24;

/// Above every process number, because Perfetto treats a thread whose number equals that of a process as its
/// main thread.
const FIRST_THREAD: usize = MAX_RANKS + 1;

/// The identity of a stream: its process and thread numbers.
///
/// Viewers treat process 0 as the idle task, so ranks begin at 1. Thread numbers are unique over all ranks,
/// because Perfetto looks up thread names by thread number alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lane {
    pid: usize,
    tid: usize,
    rank: usize,
    stream_index: usize,
}

impl Lane {
    pub(super) fn new(rank: usize, stream_index: usize) -> Result<Lane> {
        if stream_index >= MAX_STREAMS || rank >= MAX_RANKS {
            let (max_streams, max_ranks) = (MAX_STREAMS, MAX_RANKS);
            return Err(Error::TooManyStreams {
                rank,
                stream_index,
                max_streams,
                max_ranks,
            });
        }
        Ok(Lane {
            pid: rank + 1,
            tid: FIRST_THREAD + rank * MAX_STREAMS + stream_index,
            rank,
            stream_index,
        })
    }
}

/// An event; fields that its kind does not have are omitted.
#[derive(Debug, Serialize)]
pub(super) struct Event<'a> {
    ph: &'static str,
    name: &'a str,
    cat: &'static str,
    pid: usize,
    tid: usize,
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
    #[serde(skip_serializing_if = "Args::is_empty")]
    args: Args<'a>,
}

/// Additional data of an event.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Args<'a> {
    Span(&'a BTreeMap<String, Arg>),
    Name { name: String },
    SortIndex { sort_index: usize },
    Nothing,
}

impl Args<'_> {
    fn is_empty(&self) -> bool {
        match self {
            Args::Span(args) => args.is_empty(),
            other => matches!(other, Args::Nothing),
        }
    }
}

/// An event without the fields that only some kinds have.
fn plain<'a>(ph: &'static str, name: &'a str, cat: &'static str, lane: Lane, ts: f64) -> Event<'a> {
    Event {
        ph,
        name,
        cat,
        pid: lane.pid,
        tid: lane.tid,
        ts,
        dur: None,
        id: None,
        bp: None,
        args: Args::Nothing,
    }
}

/// A bar.
pub(super) fn complete(lane: Lane, span: &Span) -> Event<'_> {
    let args = Args::Span(&span.args);
    Event {
        dur: Some(span.duration_us),
        args,
        ..plain("X", &span.name, "stream", lane, span.start_us)
    }
}

/// The start of an arrow. Viewers join the two ends by number, name and category.
pub(super) fn flow_start(lane: Lane, end: &FlowEnd) -> Event<'static> {
    Event {
        id: Some(end.id.number()),
        ..plain("s", "message", "flow", lane, end.at_us)
    }
}

/// The end of an arrow, bound to the span around its time instead of the next one to begin.
pub(super) fn flow_finish(lane: Lane, end: &FlowEnd) -> Event<'static> {
    Event {
        id: Some(end.id.number()),
        bp: Some("e"),
        ..plain("f", "message", "flow", lane, end.at_us)
    }
}

/// Names the process of a rank, and puts ranks in their order.
pub(super) fn rank_names(lane: Lane) -> [Event<'static>; 2] {
    let name = format!("rank {}", lane.rank);
    [
        metadata("process_name", lane, Args::Name { name }),
        metadata(
            "process_sort_index",
            lane,
            Args::SortIndex {
                sort_index: lane.rank,
            },
        ),
    ]
}

/// Names the thread of a stream, and puts streams in the order of their first use.
pub(super) fn stream_names(lane: Lane, stream: &str) -> [Event<'static>; 2] {
    let name = stream.to_owned();
    [
        metadata("thread_name", lane, Args::Name { name }),
        metadata(
            "thread_sort_index",
            lane,
            Args::SortIndex {
                sort_index: lane.stream_index,
            },
        ),
    ]
}

fn metadata(name: &'static str, lane: Lane, args: Args<'static>) -> Event<'static> {
    Event {
        args,
        ..plain("M", name, "metadata", lane, 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::trace::FlowId;

    fn json(event: &Event<'_>) -> serde_json::Value {
        serde_json::to_value(event).unwrap()
    }

    #[test]
    fn a_bar_has_what_the_format_asks_for() {
        let span = Span::new(1, "compute", "gemm", 2.5, 4.0).with("bytes", 8usize);
        let found = json(&complete(Lane::new(1, 2).unwrap(), &span));
        let tid = FIRST_THREAD + 66;
        let expected = serde_json::json!({
            "ph": "X", "name": "gemm", "cat": "stream", "pid": 2, "tid": tid, "ts": 2.5, "dur": 4.0,
            "args": {"bytes": 8}
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn arrows_agree_in_number_name_and_category() {
        let end = FlowEnd {
            id: FlowId::new(0, 1, 5),
            rank: 0,
            stream: "pipeline".into(),
            at_us: 3.0,
        };
        let lane = Lane::new(0, 0).unwrap();
        let (start, finish) = (
            json(&flow_start(lane, &end)),
            json(&flow_finish(lane, &end)),
        );
        assert!(
            ["id", "name", "cat"]
                .iter()
                .all(|key| start[key] == finish[key] && !start[key].is_null())
        );
        assert_eq!(
            (&start["ph"], &finish["ph"], &finish["bp"]),
            (&"s".into(), &"f".into(), &"e".into())
        );
    }

    #[test]
    fn lanes_are_apart_and_bounded() {
        let (last, next) = (
            Lane::new(4, MAX_STREAMS - 1).unwrap(),
            Lane::new(5, 0).unwrap(),
        );
        assert_eq!(last.tid + 1, next.tid);
        assert!(Lane::new(MAX_RANKS - 1, 0).unwrap().pid < FIRST_THREAD);
        let error = Lane::new(3, 64).unwrap_err().to_string();
        assert_eq!(
            error,
            "trace: stream 64 of rank 3: a trace holds 64 streams on 16777216 ranks"
        );
    }
}
