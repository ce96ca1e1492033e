//! What a run left at its end: memory by kind, traffic by axis, and the text that its model wrote.

use super::{
    axis_time::TracedStep,
    html::{Row, bar, escaped, table},
};
use crate::{
    ending::Ending,
    numbers::{figures, grouped},
    past_run::PastRun,
};
use hal::error::Bytes;
use std::{cmp::Reverse, fmt::Write};
use train::{metrics, run::SampleRecord};

/// Adds the sections of all runs that have ended.
pub(super) fn sections(page: &mut String, runs: &[PastRun]) {
    let of = |run: &PastRun| Some((run.name.clone(), Ending::read(&run.dir)?));
    let ended: Vec<(String, Ending)> = runs.iter().filter_map(of).collect();
    memory(page, &ended);
    traffic(page, &ended);
    traced(page, runs);
    samples(page, runs);
}

fn memory(page: &mut String, ended: &[(String, Ending)]) {
    if ended.is_empty() {
        return;
    }
    page.push_str("<h2>Peak memory by kind, on the fullest rank</h2>\n");
    for (name, ending) in ended {
        let mut kinds: Vec<_> = ending.peak_by_kind.iter().collect();
        kinds.sort_by_key(|(_, bytes)| Reverse(**bytes));
        let (bytes, rank) = (Bytes(ending.peak_bytes), ending.peak_rank);
        let _ = writeln!(page, "<p>{}: {bytes}, on rank {rank}</p>", escaped(name));
        let parts = kinds.iter().map(|(kind, bytes)| {
            let words = format!("{kind} {},", Bytes(**bytes));
            (words, **bytes as f64)
        });
        bar(page, &parts.collect::<Vec<_>>());
    }
}

fn traffic(page: &mut String, ended: &[(String, Ending)]) {
    let mut rows: Vec<Row> = Vec::new();
    for (name, ending) in ended {
        rows.extend(ending.traffic.iter().map(|of_axis| {
            let cells = [
                format!("{}={}", of_axis.axis, of_axis.degree),
                of_axis.operation.clone(),
                grouped(of_axis.calls),
                Bytes(of_axis.bytes as usize).to_string(),
                Bytes(of_axis.ring_bytes as usize).to_string(),
            ];
            (name.clone(), cells.to_vec())
        }));
    }
    let head = [
        "axis",
        "collective",
        "calls",
        "full buffers",
        "sent in a ring",
    ];
    titled(
        page,
        "Traffic of a step by axis, as rank 0 counts it",
        &head,
        rows,
    );
}

fn traced(page: &mut String, runs: &[PastRun]) {
    let mut rows: Vec<Row> = Vec::new();
    for run in runs {
        let Some(step) = TracedStep::read(&run.dir.join("trace.json")) else {
            continue;
        };
        let ms = |seconds: f64| format!("{} ms", figures(1e3 * seconds));
        rows.extend(step.axes.iter().map(|(axis, time)| {
            let exposed = time.total_s - time.hidden_s;
            let cells = [
                axis.clone(),
                ms(time.total_s),
                ms(time.hidden_s),
                ms(exposed),
                format!("{:.1} %", 100.0 * exposed / step.step_s),
            ];
            (run.name.clone(), cells.to_vec())
        }));
    }
    let head = [
        "axis",
        "in collectives",
        "beside compute",
        "exposed",
        "exposed, of the step",
    ];
    titled(
        page,
        "Time of the traced step by axis, mean of the ranks",
        &head,
        rows,
    );
}

fn titled(page: &mut String, title: &str, head: &[&str], mut rows: Vec<Row>) {
    if rows.is_empty() {
        return;
    }
    let head = head.iter().map(|word| (*word).to_owned());
    rows.insert(0, (String::new(), head.collect()));
    let _ = writeln!(page, "<h2>{title}</h2>");
    table(page, &rows);
}

// The most texts of a run that are shown.
const MOST_SAMPLES: usize = 12;

fn samples(page: &mut String, runs: &[PastRun]) {
    let mut shown = String::new();
    for run in runs {
        let path = run.dir.join("samples.jsonl");
        let samples = metrics::read::<SampleRecord>(&path).unwrap_or_default();
        // Evenly over the run, with its last.
        let every = samples.len().div_ceil(MOST_SAMPLES).max(1);
        for sample in samples.iter().rev().step_by(every).rev() {
            let _ = writeln!(
                shown,
                "<p>{}, after step {}</p>\n<pre>{}</pre>",
                escaped(&run.name),
                grouped(sample.step),
                escaped(sample.text.trim_matches('\n'))
            );
        }
    }
    if !shown.is_empty() {
        let _ = writeln!(page, "<h2>Text that the model wrote</h2>\n{shown}");
    }
}
