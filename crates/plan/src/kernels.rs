//! The work of a simulated step by kernel, beside the least time that its bytes and flop take on the device.

use crate::{Outcome, Request};
use ::sim::{Category, Work};
use hal::error::Grouped;
use serde::Serialize;
use std::{collections::BTreeMap, fmt::Write};

/// All calls of a kernel in a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KernelWork {
    /// The kernel, `gemm`, or a copy.
    pub name: &'static str,
    /// Calls of the vendor's interface; a vendor may need several launches for one.
    pub calls: usize,
    /// Bytes that it reads and writes.
    pub bytes: usize,
    /// Floating-point operations; 0 for kernels that are limited by their bytes.
    pub flop: f64,
    /// Its time in the simulation, in seconds.
    pub seconds: f64,
    /// The time of its bytes at the advertised bandwidth of the memory, or of its flop at the advertised peak, whichever is longer, in
    /// seconds.
    pub least_s: f64,
}

impl KernelWork {
    // Adds other calls, and takes their name.
    fn add(&mut self, other: &KernelWork) {
        self.name = other.name;
        self.calls += other.calls;
        self.bytes += other.bytes;
        self.flop += other.flop;
        self.seconds += other.seconds;
        self.least_s += other.least_s;
    }
}

/// The work of the stage that computes longest, the longest first; without collectives and messages. Empty unless the step was
/// [simulated](crate::simulate()) with its spans.
pub fn kernels(request: &Request, outcome: &Outcome) -> Vec<KernelWork> {
    let (bandwidth, peak) = limits(request);
    let mut found: BTreeMap<&'static str, KernelWork> = BTreeMap::new();
    let is_compute =
        |work: &&Work| !matches!(work.category, Category::Collective | Category::Message);
    for work in outcome.slowest().work.iter().filter(is_compute) {
        let call = KernelWork {
            name: work.name,
            calls: 1,
            bytes: work.bytes,
            flop: work.flop,
            seconds: work.end_s - work.start_s,
            least_s: (work.bytes as f64 / bandwidth).max(work.flop / peak),
        };
        found.entry(work.name).or_default().add(&call);
    }
    let mut lines: Vec<KernelWork> = found.into_values().collect();
    lines.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    lines
}

// Bytes per second of the device's memory, and the flop per second of its GEMMs in the type of the activations.
fn limits(request: &Request) -> (f64, f64) {
    let device = &request.machine.device;
    let peak = device.peak(request.precision.dtype().name());
    (device.memory_gbps.value * 1e9, peak)
}

/// The kernels as a table, with their sums.
pub fn text(request: &Request, outcome: &Outcome) -> String {
    let lines = kernels(request, outcome);
    let (bandwidth, peak) = limits(request);
    let mut text = format!(
        "\nwork of the step by kernel, beside what {:.0} GB/s and {:.0} Tflop/s take at least\n",
        bandwidth / 1e9,
        peak / 1e12
    );
    let _ = writeln!(
        text,
        "{:<26} {:>8} {:>9} {:>9} {:>9} {:>9} {:>6}  limited by",
        "kernel", "calls", "GB", "Tflop", "ms", "least ms", "share"
    );
    let mut all = KernelWork::default();
    lines.iter().for_each(|line| all.add(line));
    all.name = "all";
    let mut row = |line: &KernelWork, limit: &str| {
        let _ = writeln!(
            text,
            "{:<26} {:>8} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>5.1}%  {limit}",
            line.name,
            Grouped(line.calls as u64).to_string(),
            line.bytes as f64 / 1e9,
            line.flop / 1e12,
            line.seconds * 1e3,
            line.least_s * 1e3,
            100.0 * line.seconds / all.seconds,
        );
    };
    for line in &lines {
        let limit = match line.flop / peak > line.bytes as f64 / bandwidth {
            true => "flop",
            false => "bytes",
        };
        row(line, limit);
    }
    row(&all, "");
    text.truncate(text.trim_end().len());
    text + "\n"
}
