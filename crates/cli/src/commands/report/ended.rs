//! What a run left beside its steps: memory by kind, traffic by axis, and the text that its model wrote. Of a run that failed
//! or was killed, its records hold the memory.

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

/// Adds the sections of all runs that have any of these.
pub(super) fn sections(page: &mut String, runs: &[PastRun]) {
    let of = |run: &PastRun| Some((run.name.clone(), Ending::read(&run.dir)?));
    let ended: Vec<(String, Ending)> = runs.iter().filter_map(of).collect();
    memory(page, &runs.iter().filter_map(peak).collect::<Vec<_>>());
    traffic(page, &ended);
    traced(page, runs);
    samples(page, runs);
}

/// The most that a run held on one rank.
struct Peak {
    run: String,
    rank: usize,
    by_kind: Vec<(String, u64)>,
}

// The end of a run knows of validations and samples too.
fn peak(run: &PastRun) -> Option<Peak> {
    let of_end = Ending::read(&run.dir).map(|ending| {
        let kinds = ending.peak_by_kind.into_iter();
        let kinds = kinds.map(|(kind, bytes)| (kind, bytes as u64));
        (ending.peak_rank, kinds.collect::<Vec<_>>())
    });
    let of_steps = || {
        let peak = run.peak_by_kind()?.clone();
        Some((peak.rank, peak.by_kind.into_iter().collect()))
    };
    let (rank, mut by_kind) = of_end
        .filter(|(_, kinds)| !kinds.is_empty())
        .or_else(of_steps)?;
    by_kind.sort_by_key(|(_, bytes)| Reverse(*bytes));
    Some(Peak {
        run: run.name.clone(),
        rank,
        by_kind,
    })
}

fn memory(page: &mut String, peaks: &[Peak]) {
    if peaks.is_empty() {
        return;
    }
    page.push_str("<h2>Peak memory by kind, on the fullest rank</h2>\n");
    for Peak { run, rank, by_kind } in peaks {
        let words = |bytes: u64| Bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
        let bytes = words(by_kind.iter().map(|(_, bytes)| bytes).sum());
        let _ = writeln!(page, "<p>{}: {bytes}, on rank {rank}</p>", escaped(run));
        let parts = by_kind
            .iter()
            .map(|(kind, bytes)| (format!("{kind} {},", words(*bytes)), *bytes as f64));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::past_run::sample;
    use train::metrics::{MetricsWriter, PeakByKind, Record};

    fn record(step: u64, peak: u64, kinds: &[(&str, u64)]) -> Record {
        let by_kind = kinds.iter().map(|(kind, bytes)| ((*kind).into(), *bytes));
        let by_kind: std::collections::BTreeMap<String, u64> = by_kind.collect();
        Record {
            step,
            loss: 2.0,
            peak_memory_bytes: Some(peak),
            peak: (!by_kind.is_empty()).then_some(PeakByKind { rank: 2, by_kind }),
            ..Record::default()
        }
    }

    fn memory_of(dir: &std::path::Path) -> String {
        let mut page = String::new();
        sections(&mut page, &[PastRun::read(dir).unwrap()]);
        page
    }

    #[test]
    fn a_run_that_was_killed_shows_the_memory_that_its_steps_recorded() {
        let dir = tempfile::tempdir().unwrap();
        sample(dir.path(), &[], "");
        // Of a run that was started twice: the second time it held less.
        let mut lines = MetricsWriter::create(&dir.path().join("metrics.jsonl")).unwrap();
        for record in [
            record(1, 3 << 20, &[("weights", 3 << 20)]),
            record(
                2,
                4 << 20,
                &[("weights", 1 << 20), ("activations", 3 << 20)],
            ),
            record(3, 4 << 20, &[]),
            record(4, 2 << 20, &[("weights", 2 << 20)]),
        ] {
            lines.write(&record).unwrap();
        }
        let page = memory_of(dir.path());
        for part in ["4.0 MiB, on rank 2</p>", "activations 3.0 MiB, 75 %"] {
            assert!(page.contains(part), "{part} not in {page}");
        }
        // The end of a run knows more.
        let mut ending = Ending {
            peak_bytes: 5 << 20,
            peak_rank: 1,
            ..Ending::default()
        };
        ending.peak_by_kind.insert("weights".into(), 5 << 20);
        ending.write(dir.path()).unwrap();
        assert!(memory_of(dir.path()).contains("5.0 MiB, on rank 1</p>"));
    }

    #[test]
    fn a_run_of_an_earlier_release_shows_none() {
        let dir = tempfile::tempdir().unwrap();
        sample(dir.path(), &[3.0], "");
        assert!(!memory_of(dir.path()).contains("by kind"));
    }
}
