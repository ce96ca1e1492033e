//! Numbers of the server, in the text format of Prometheus.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

/// Bounds of the histograms' buckets, in seconds.
const BOUNDS: [f64; 10] = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0];

/// What is counted since the server began, and what is now.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    statuses: Mutex<BTreeMap<u16, u64>>,
    pub(crate) prompt_tokens: AtomicU64,
    pub(crate) reused_tokens: AtomicU64,
    pub(crate) generated_tokens: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) running: AtomicUsize,
    pub(crate) waiting: AtomicUsize,
    pub(crate) connections: AtomicUsize,
    /// From the last byte of a request to its last token.
    pub(crate) request: Histogram,
    /// From the last byte of a request to its first token.
    pub(crate) first_token: Histogram,
}

/// Durations by their length.
#[derive(Debug, Default)]
pub(crate) struct Histogram(Mutex<Counts>);

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    // Durations up to each bound, and all of them.
    up_to: [u64; BOUNDS.len()],
    count: u64,
    seconds: f64,
}

impl Histogram {
    /// Adds a duration.
    pub(crate) fn add(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (bound, count) in BOUNDS.iter().zip(&mut counts.up_to) {
            *count += u64::from(seconds <= *bound);
        }
        counts.count += 1;
        counts.seconds += seconds;
    }

    fn write(&self, out: &mut Page, name: &str, help: &str) {
        let counts = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        out.head(name, "histogram", help);
        for (bound, count) in BOUNDS.iter().zip(counts.up_to) {
            out.value(&format!("{name}_bucket{{le=\"{bound}\"}}"), count);
        }
        out.value(&format!("{name}_bucket{{le=\"+Inf\"}}"), counts.count);
        out.value(&format!("{name}_sum"), counts.seconds);
        out.value(&format!("{name}_count"), counts.count);
    }
}

/// The page that Prometheus reads.
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.head(name, kind, help);
        self.value(name, value);
    }
}

impl Metrics {
    /// Counts a request that was answered with this status.
    pub(crate) fn answered(&self, status: u16) {
        let mut statuses = self.statuses.lock().unwrap_or_else(PoisonError::into_inner);
        *statuses.entry(status).or_default() += 1;
    }

    /// The page that Prometheus reads.
    pub(crate) fn page(&self) -> String {
        let mut out = Page(String::new());
        let name = "fascicle_requests_total";
        out.head(name, "counter", "Requests by status");
        let statuses = self.statuses.lock().unwrap_or_else(PoisonError::into_inner);
        for (status, count) in &*statuses {
            out.value(&format!("{name}{{status=\"{status}\"}}"), count);
        }
        drop(statuses);
        let counters = [
            (
                "prompt_tokens",
                "Tokens of prompts that were run",
                &self.prompt_tokens,
            ),
            (
                "reused_tokens",
                "Tokens of prompts that another text had run",
                &self.reused_tokens,
            ),
            (
                "generated_tokens",
                "Tokens that were generated",
                &self.generated_tokens,
            ),
            (
                "cancelled_sequences",
                "Sequences whose client left or ran out of time",
                &self.cancelled,
            ),
        ];
        for (name, help, count) in counters {
            let name = format!("fascicle_{name}_total");
            out.one(&name, "counter", help, count.load(Relaxed));
        }
        let gauges = [
            ("running_sequences", "Sequences that run", &self.running),
            ("waiting_sequences", "Sequences that wait", &self.waiting),
            ("connections", "Open connections", &self.connections),
        ];
        for (name, help, count) in gauges {
            let name = format!("fascicle_{name}");
            out.one(&name, "gauge", help, count.load(Relaxed));
        }
        let help = "Seconds from a request to its last token";
        self.request
            .write(&mut out, "fascicle_request_seconds", help);
        let help = "Seconds from a request to its first token";
        self.first_token
            .write(&mut out, "fascicle_first_token_seconds", help);
        out.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_all_that_is_at_most_their_bound() {
        let metrics = Metrics::default();
        metrics.answered(200);
        metrics.answered(200);
        metrics.request.add(Duration::from_millis(50));
        metrics.request.add(Duration::from_secs(1000));
        let page = metrics.page();
        for line in [
            "fascicle_requests_total{status=\"200\"} 2",
            "fascicle_request_seconds_bucket{le=\"0.03\"} 0",
            "fascicle_request_seconds_bucket{le=\"0.1\"} 1",
            "fascicle_request_seconds_bucket{le=\"300\"} 1",
            "fascicle_request_seconds_bucket{le=\"+Inf\"} 2",
            "fascicle_request_seconds_sum 1000.05",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
    }
}
