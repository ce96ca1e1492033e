//! A piece of work with a duration.

use std::collections::BTreeMap;

use serde::Serialize;

/// Work on one stream of one rank, from its start to its end.
///
/// Spans of one stream lie side by side or inside one another; viewers drop one that only partly overlaps another.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The rank.
    pub rank: usize,
    /// The stream, such as `compute` or `tensor communication`.
    pub stream: String,
    /// The name of the work.
    pub name: String,
    /// Start, in microseconds on a clock that all ranks of the trace share.
    pub start_us: f64,
    /// Its duration.
    pub duration_us: f64,
    /// Additional data, such as bytes or the micro-batch.
    pub args: BTreeMap<String, Arg>,
}

/// A number or a text attached to a span.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Arg {
    /// A count, such as bytes.
    Count(u64),
    /// A measured number.
    Number(f64),
    /// A word.
    Text(String),
}

impl Span {
    /// A span without arguments.
    pub fn new(rank: usize, stream: &str, name: &str, start_us: f64, duration_us: f64) -> Span {
        let (stream, name, args) = (stream.to_owned(), name.to_owned(), BTreeMap::new());
        Span {
            rank,
            stream,
            name,
            start_us,
            duration_us,
            args,
        }
    }

    /// The same span with one more argument.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Arg>) -> Span {
        self.args.insert(key.to_owned(), value.into());
        self
    }

    /// Whether the times can be drawn.
    pub(super) fn is_drawable(&self) -> bool {
        self.start_us.is_finite() && self.duration_us.is_finite() && self.duration_us >= 0.0
    }
}

impl From<u64> for Arg {
    fn from(count: u64) -> Arg {
        Arg::Count(count)
    }
}

impl From<usize> for Arg {
    fn from(count: usize) -> Arg {
        Arg::Count(count as u64)
    }
}

impl From<f64> for Arg {
    /// JSON cannot represent NaN and infinity, so such a number becomes text.
    fn from(number: f64) -> Arg {
        if number.is_finite() {
            Arg::Number(number)
        } else {
            Arg::Text(number.to_string())
        }
    }
}

impl From<&str> for Arg {
    fn from(text: &str) -> Arg {
        Arg::Text(text.to_owned())
    }
}

impl From<String> for Arg {
    fn from(text: String) -> Arg {
        Arg::Text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_plain_json() {
        let span = Span::new(0, "compute", "gemm", 0.0, 1.0)
            .with("bytes", 4096usize)
            .with("tflops", 1.5)
            .with("ratio", f64::NAN)
            .with("kind", "forward");
        let json = serde_json::to_string(&span.args).unwrap();
        assert_eq!(
            json,
            r#"{"bytes":4096,"kind":"forward","ratio":"NaN","tflops":1.5}"#
        );
    }

    #[test]
    fn times_are_finite_and_forward() {
        let drawable = |start, duration| Span::new(0, "s", "n", start, duration).is_drawable();
        assert!(drawable(0.0, 0.0) && drawable(-5.0, 2.0));
        assert!(!drawable(f64::NAN, 1.0) && !drawable(0.0, f64::INFINITY) && !drawable(0.0, -1.0));
    }
}
