//! `fascicle report`: runs as one HTML file.

mod axis_time;
mod ended;
mod html;

use super::compare::Comparison;
use crate::{
    failure::{Failure, Outcome},
    files, output,
    past_run::PastRun,
};
use clap::Args;
use html::{escaped, table};
use std::{borrow::Cow, collections::BTreeSet, fmt::Write, path::PathBuf};
use train::{
    checkpoint::replace_file,
    metrics::{self, Line, Point, Record, chart},
    run::{PATIENCE, SpeedRecord},
};

/// Arguments of `fascicle report`.
#[derive(Args, Debug)]
pub(crate) struct Report {
    /// Run directories, finished or not
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// File to write; by default report.html in the directory of the first run
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A quantity with its unit, and its number in a step.
type Quantity = (&'static str, &'static str, fn(&Record) -> Option<f64>);

/// What has a chart beside the losses.
const QUANTITIES: [Quantity; 6] = [
    ("Speed", "tokens/s", |record| Some(record.tokens_per_s)),
    (
        "Model flop utilisation",
        "% of the devices' peak",
        |record| Some(100.0 * record.mfu?),
    ),
    // Where there is a utilisation, this would be the same line.
    ("Speed of the model", "Tflop/s", |record| {
        let speed = record.flop_per_s.filter(|_| record.mfu.is_none());
        speed.map(|speed| speed / 1e12)
    }),
    (
        "Memory of the fullest rank",
        "MiB after the step",
        |record| Some(record.memory_bytes? as f64 / f64::from(1 << 20)),
    ),
    ("Norm of the gradient", "before clipping", |record| {
        Some(record.grad_norm)
    }),
    ("Learning rate", "rate", |record| Some(record.lr)),
];

const STYLE: &str = "body { font: 16px/1.5 sans-serif; max-width: 960px; margin: 2em auto; padding: 0 1em; color: #222 }
h1 { font-size: 1.4em } h2 { font-size: 1.1em; margin-top: 2em }
svg { width: 100%; min-width: 600px; height: auto }
table { border-collapse: collapse } td, th { padding: .2em .8em; text-align: right; white-space: nowrap; border-bottom: 1px solid #ddd }
td:first-child, th:first-child { text-align: left; padding-left: 0 } .scroll { overflow-x: auto }
h1 { overflow-wrap: anywhere } pre { background: #f4f4f4; padding: .8em; white-space: pre-wrap; overflow-wrap: anywhere }
.bar { display: flex; height: 1.4em } .bar i { display: block } .legend span { display: inline-block; margin-right: 1em }
.legend i { display: inline-block; width: .8em; height: .8em; margin-right: .4em }";

impl Report {
    /// Writes the file, and prints its name.
    pub(crate) fn run(&self) -> Outcome {
        let runs = PastRun::read_all(&self.runs)?;
        let out = match &self.out {
            Some(out) => out.clone(),
            None => runs[0].dir.join("report.html"),
        };
        files::check_output("--out", &out)?;
        let page = page(&runs)?;
        let refused = |error| Failure::Run(format!("{}: {error}", out.display()));
        replace_file(&out, page.as_bytes()).map_err(refused)?;
        output::path(&out)
    }
}

fn page(runs: &[PastRun]) -> Outcome<String> {
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let title = escaped(&names.join(", "));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n<style>\n{STYLE}\n</style></head>\n<body>\n<h1>{title}</h1>\n"
    );
    let comparison = Comparison::of(runs);
    table(&mut page, &comparison.rows());
    section(&mut page, "Loss", "nats per token", &losses(runs))?;
    let sets = validations(runs);
    section(&mut page, "Validation by set", "nats per token", &sets)?;
    for (title, unit, of) in QUANTITIES {
        let lines = runs.iter().enumerate().map(|(index, run)| Line {
            name: run.name.clone(),
            points: points(run, of),
            colour: index,
            is_marked: false,
        });
        section(&mut page, title, unit, &lines.collect::<Vec<_>>())?;
    }
    ended::sections(&mut page, runs);
    stragglers(&mut page, runs);
    let (heading, settings) = match runs {
        [run] => {
            let row = |(key, value): (&String, &String)| (key.clone(), vec![value.clone()]);
            ("Settings", run.settings.iter().map(row).collect())
        }
        _ => ("Settings that differ", comparison.settings_rows()),
    };
    if !settings.is_empty() {
        let _ = writeln!(page, "<h2>{heading}</h2>");
        let mut named = vec![(
            String::new(),
            names.iter().map(|name| (*name).into()).collect(),
        )];
        named.extend(settings);
        table(&mut page, &named);
    }
    page.push_str("</body></html>\n");
    Ok(page)
}

fn points(run: &PastRun, of: impl Fn(&Record) -> Option<f64>) -> Cow<'static, [Point]> {
    let points = run
        .records
        .iter()
        .filter_map(|record| Some((record.step as f64, of(record)?)));
    points.collect()
}

// Training and validation of one run in colours of their own; of several, each run in its colour.
fn losses(runs: &[PastRun]) -> Vec<Line<'static>> {
    let lines = |(index, run): (usize, &PastRun)| {
        let (name, validation) = match runs {
            [_] => (String::new(), 1),
            _ => (format!("{}, ", run.name), index),
        };
        [
            Line {
                name: format!("{name}training"),
                points: points(run, |record| Some(record.loss)),
                colour: index,
                is_marked: false,
            },
            Line {
                name: format!("{name}validation"),
                points: points(run, |record| record.val_loss),
                colour: validation,
                is_marked: true,
            },
        ]
    };
    runs.iter().enumerate().flat_map(lines).collect()
}

// Each set of the validations, where they have several.
fn validations(runs: &[PastRun]) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for run in runs {
        let sets = run
            .records
            .iter()
            .flat_map(|record| record.val_losses.keys());
        for set in sets.collect::<BTreeSet<_>>() {
            let name = match runs {
                [_] => set.clone(),
                _ => format!("{}, {set}", run.name),
            };
            lines.push(Line {
                name,
                points: points(run, |record| record.val_losses.get(set).copied()),
                colour: lines.len(),
                is_marked: true,
            });
        }
    }
    lines
}

fn section(page: &mut String, title: &str, unit: &str, lines: &[Line<'_>]) -> Outcome {
    let drawn = chart("", unit, lines).map_err(Failure::run)?;
    if let Some(svg) = drawn {
        let _ = writeln!(page, "<h2>{title}</h2>\n<div class=\"scroll\">{svg}</div>");
    }
    Ok(())
}

// Ranks that were slow for long.
fn stragglers(page: &mut String, runs: &[PastRun]) {
    let mut rows = Vec::new();
    for run in runs {
        let path = run.dir.join("speeds.jsonl");
        for record in metrics::read::<SpeedRecord>(&path).unwrap_or_default() {
            for slow in record.slow.iter().filter(|slow| slow.times == PATIENCE) {
                let cells = [
                    record.step.to_string(),
                    format!("{} on {}", slow.rank, slow.host),
                    format!("{:.2}", slow.tflops / record.tflops),
                    format!("{:.2}", slow.copy_gbps / record.copy_gbps),
                ];
                rows.push((run.name.clone(), cells.to_vec()));
            }
        }
    }
    if !rows.is_empty() {
        let head = [
            "step",
            "rank",
            "matmul, of the median",
            "copy, of the median",
        ];
        rows.insert(0, (String::new(), head.map(str::to_owned).to_vec()));
        page.push_str("<h2>Ranks that became slow</h2>\n");
        table(page, &rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ending::Ending, past_run::sample};
    use train::run::AxisTraffic;

    #[test]
    fn a_page_has_charts_tables_and_no_markup_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = ["<b>one", "two"].map(|name| dir.path().join(name));
        for (index, dir) in dirs.iter().enumerate() {
            std::fs::create_dir(dir).unwrap();
            let config = format!("[training]\nlearning_rate = {index}.5\n");
            sample(dir, &[3.0, 2.5, 2.0], &config);
        }
        let runs = PastRun::read_all(&dirs).unwrap();
        let both = page(&runs).unwrap();
        // Records of an earlier release have neither flop nor memory.
        assert_eq!(both.matches("<svg").count(), 1 + QUANTITIES.len() - 3);
        assert!(!both.contains("by kind") && !both.contains("by axis"));
        assert!(both.contains("Settings that differ") && both.contains("<td>0.5</td><td>1.5</td>"));
        assert!(both.contains("&lt;b&gt;one") && !both.contains("<b>one"));
        let one = page(&runs[..1]).unwrap();
        assert!(one.contains("<h2>Settings</h2>") && one.contains("validation"));
        assert!(!one.contains("became slow"));
    }

    #[test]
    fn a_run_that_has_ended_shows_memory_traffic_and_its_text() {
        let dir = tempfile::tempdir().unwrap();
        sample(dir.path(), &[3.0, 2.0], "");
        let mut ending = Ending {
            peak_bytes: 4 << 20,
            peak_rank: 3,
            ..Ending::default()
        };
        ending.peak_by_kind.insert("weights".into(), 1 << 20);
        ending.peak_by_kind.insert("activations".into(), 3 << 20);
        ending.traffic.push(AxisTraffic {
            axis: "x".into(),
            degree: 2,
            operation: "all_reduce".into(),
            calls: 1200,
            bytes: 6 << 20,
            ring_bytes: 6 << 20,
        });
        ending.write(dir.path()).unwrap();
        let lines =
            (1..=30).map(|step| format!("{{\"step\":{step},\"text\":\"\\nif {step} < b\"}}\n"));
        std::fs::write(dir.path().join("samples.jsonl"), lines.collect::<String>()).unwrap();
        let page = page(&[PastRun::read(dir.path()).unwrap()]).unwrap();
        for part in [
            "4.0 MiB, on rank 3</p>",
            "activations 3.0 MiB, 75 %",
            "<td>x=2</td><td>all_reduce</td><td>1,200</td><td>6.0 MiB</td>",
            "after step 3</p>\n<pre>if 3 &lt; b</pre>",
            "after step 30</p>\n<pre>if 30 &lt; b</pre>",
        ] {
            assert!(page.contains(part), "{part} not in {page}");
        }
        assert_eq!(page.matches("<pre>").count(), 10, "evenly, at most 12");
        for reference in ["src=", "href=", "url(", "@import"] {
            assert!(!page.contains(reference), "a page needs no network");
        }
    }
}
