//! The work of a simulated step by kernel, beside the least time that its bytes and flop take on the device.

use crate::{Outcome, Request};
use ::sim::{Category, Work};
use hal::error::Grouped;
use serde::Serialize;
use std::{collections::BTreeMap, fmt::Write};

/// All calls of a kernel in a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelWork {
    /// The kernel, `gemm`, or a copy.
    pub name: &'static str,
    /// Calls of the vendor's interface; a vendor may need several launches for one.
    pub calls: usize,
    /// Bytes of the operands that it reads and writes.
    pub bytes: usize,
    /// Floating-point operations; 0 for kernels that are limited by their bytes.
    pub flop: f64,
    /// Its time in the simulation, in seconds.
    pub seconds: f64,
    /// The time of its bytes at the advertised bandwidth of the memory, or of its flop at the advertised peak, whichever is longer, in
    /// seconds.
    pub least_s: f64,
}

/// The work of the stage that computes longest, the longest first; without collectives and messages. Empty unless the step was
/// [simulated](crate::simulate()) with its spans.
pub fn kernels(request: &Request, outcome: &Outcome) -> Vec<KernelWork> {
    let (bandwidth, peak) = limits(request);
    let mut found: BTreeMap<&'static str, KernelWork> = BTreeMap::new();
    let is_compute =
        |work: &&Work| !matches!(work.category, Category::Collective | Category::Message);
    for work in outcome.slowest().work.iter().filter(is_compute) {
        let line = found.entry(work.name).or_insert_with(|| KernelWork {
            name: work.name,
            calls: 0,
            bytes: 0,
            flop: 0.0,
            seconds: 0.0,
            least_s: 0.0,
        });
        line.calls += 1;
        line.bytes += work.bytes;
        line.flop += work.flop;
        line.seconds += work.end_s - work.start_s;
        line.least_s += (work.bytes as f64 / bandwidth).max(work.flop / peak);
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
    let total: f64 = lines.iter().map(|line| line.seconds).sum();
    let mut row = |name: &str, line: &KernelWork, limit: &str| {
        let _ = writeln!(
            text,
            "{:<26} {:>8} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>5.1}%  {limit}",
            name,
            Grouped(line.calls as u64).to_string(),
            line.bytes as f64 / 1e9,
            line.flop / 1e12,
            line.seconds * 1e3,
            line.least_s * 1e3,
            100.0 * line.seconds / total,
        );
    };
    for line in &lines {
        let limit = match line.flop / peak > line.bytes as f64 / bandwidth {
            true => "flop",
            false => "bytes",
        };
        row(line.name, line, limit);
    }
    let sum = |of: fn(&KernelWork) -> f64| lines.iter().map(of).sum();
    let all = KernelWork {
        name: "all",
        calls: lines.iter().map(|line| line.calls).sum(),
        bytes: lines.iter().map(|line| line.bytes).sum(),
        flop: sum(|line| line.flop),
        seconds: total,
        least_s: sum(|line| line.least_s),
    };
    row("all", &all, "");
    text.truncate(text.trim_end().len());
    text + "\n"
}
