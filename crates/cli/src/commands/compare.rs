//! `fascicle compare`: runs beside each other.

use crate::{
    failure::Outcome,
    layout,
    numbers::{duration, flop_rate, grouped, rounded},
    output,
    past_run::{PastRun, last_common_validation, nats},
};
use clap::Args;
use hal::error::Bytes;
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    path::PathBuf,
    time::Duration,
};

/// Arguments of `fascicle compare`.
#[derive(Args, Debug)]
pub(crate) struct Compare {
    /// Run directories, finished or not
    #[arg(required = true, num_args = 2.., value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// A name and a cell for each run.
type Row = (String, Vec<String>);

/// What is said of a run.
#[derive(Debug, Serialize)]
struct Line {
    name: String,
    steps: u64,
    /// Mean of the last steps, in nats.
    loss: f64,
    best_validation: Option<f64>,
    best_step: Option<u64>,
    /// After the last step after which all runs have validated.
    common_validation: Option<f64>,
    tokens: Option<u64>,
    tokens_per_s: f64,
    /// Median flop/s of the model, and its median fraction of the devices' peak.
    flop_per_s: Option<f64>,
    mfu: Option<f64>,
    /// The most that tensors held on a rank.
    peak_memory_bytes: Option<u64>,
    seconds: f64,
}

/// Runs beside each other.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    runs: Vec<Line>,
    /// The last step after which all runs have validated.
    common_step: Option<u64>,
    /// The keys in which the configurations differ, with the value of each run.
    settings: BTreeMap<String, Vec<Option<String>>>,
}

impl Compare {
    /// Prints the table.
    pub(crate) fn run(&self) -> Outcome {
        let found = Comparison::of(&PastRun::read_all(&self.runs)?);
        match self.json {
            true => output::json(&found),
            false => output::result(&found.text(layout::of_results())),
        }
    }
}

impl Comparison {
    /// Compares what the runs have left.
    pub(super) fn of(runs: &[PastRun]) -> Comparison {
        let common_step = last_common_validation(runs);
        let line = |run: &PastRun| {
            let best = run.best_validation();
            Line {
                name: run.name.clone(),
                steps: run.last().step,
                loss: run.loss(),
                best_validation: best.map(|best| best.0),
                best_step: best.map(|best| best.1),
                common_validation: common_step.and_then(|step| run.validation_at(step)),
                tokens: run.tokens(),
                tokens_per_s: rounded(run.tokens_per_s(), 1),
                flop_per_s: run.median_of(|record| record.flop_per_s),
                mfu: run.median_of(|record| record.mfu),
                peak_memory_bytes: run.peak_memory(),
                seconds: rounded(run.seconds(), 3),
            }
        };
        let keys: BTreeSet<&String> = runs.iter().flat_map(|run| run.settings.keys()).collect();
        let values = keys.into_iter().map(|key| {
            let of_run = runs.iter().map(|run| run.settings.get(key).cloned());
            (key.clone(), of_run.collect::<Vec<_>>())
        });
        Comparison {
            runs: runs.iter().map(line).collect(),
            common_step,
            settings: values
                .filter(|(_, values)| values.iter().any(|value| *value != values[0]))
                .collect(),
        }
    }

    // Runs that do not fit beside each other stand below each other.
    fn text(&self, columns: Option<usize>) -> String {
        let mut rows = self.rows();
        let settings = self.settings_rows();
        if !settings.is_empty() {
            rows.push(("settings that differ:".into(), Vec::new()));
            rows.extend(settings);
        }
        tables(&rows, columns)
    }

    /// The keys in which the runs differ, each with its values.
    pub(super) fn settings_rows(&self) -> Vec<Row> {
        let cell = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".into());
        let row = |(key, values): (&String, &Vec<Option<String>>)| {
            (key.clone(), values.iter().map(cell).collect())
        };
        self.settings.iter().map(row).collect()
    }

    /// The numbers of the runs; the first row has their names.
    pub(super) fn rows(&self) -> Vec<Row> {
        let none = || "-".to_owned();
        let row = |name: &str, cell: &dyn Fn(&Line) -> String| {
            (name.to_owned(), self.runs.iter().map(cell).collect())
        };
        let mut rows: Vec<Row> = vec![
            row("", &|run| run.name.clone()),
            row("steps", &|run| grouped(run.steps)),
            row("loss, mean of the last 20 steps", &|run| nats(run.loss)),
            row("lowest validation loss", &|run| {
                run.best_validation.map_or_else(none, nats)
            }),
            row("  after step", &|run| {
                run.best_step.map_or_else(none, grouped)
            }),
        ];
        if let Some(step) = self.common_step.filter(|_| self.runs.len() > 1) {
            rows.push(row(
                &format!("validation loss after step {}", grouped(step)),
                &|run| run.common_validation.map_or_else(none, nats),
            ));
        }
        rows.extend([
            row("tokens", &|run| run.tokens.map_or_else(none, grouped)),
            row("tokens/s, median", &|run| grouped(run.tokens_per_s as u64)),
        ]);
        // Runs of earlier releases have none of these.
        let sometimes = [
            row("model flop/s, median", &|run| {
                run.flop_per_s.map_or_else(none, flop_rate)
            }),
            row("MFU, median", &|run| {
                run.mfu
                    .map_or_else(none, |mfu| format!("{:.1} %", 100.0 * mfu))
            }),
            row("peak memory of the fullest rank", &|run| {
                let bytes = |bytes: u64| Bytes(bytes as usize).to_string();
                run.peak_memory_bytes.map_or_else(none, bytes)
            }),
        ];
        rows.extend(
            sometimes
                .into_iter()
                .filter(|(_, cells)| cells.iter().any(|cell| cell != "-")),
        );
        rows.extend([row("time in steps", &|run| {
            duration(Duration::try_from_secs_f64(run.seconds).unwrap_or_default())
        })]);
        rows
    }
}

// Tables of as many columns as fit, one below the other, each with the names of the rows.
fn tables(rows: &[Row], columns: Option<usize>) -> String {
    let num_runs = rows.iter().map(|(_, cells)| cells.len()).max().unwrap_or(0);
    let part = |first: usize, last: usize| -> String {
        let part = rows.iter().map(|(name, cells)| {
            let cells = cells.get(first..last).unwrap_or(&[]);
            (name.clone(), cells.to_vec())
        });
        aligned(&part.collect::<Vec<_>>())
    };
    let fits = |table: &str| {
        let widest = table.lines().map(|line| line.chars().count()).max();
        columns.is_none_or(|columns| widest.unwrap_or(0) <= columns)
    };
    let (mut texts, mut first) = (Vec::new(), 0);
    while first < num_runs {
        let mut lasts = (first + 1..=num_runs).rev();
        let last = lasts.find(|last| *last == first + 1 || fits(&part(first, *last)));
        let last = last.unwrap_or(num_runs);
        texts.push(part(first, last));
        first = last;
    }
    texts.join("\n\n")
}

/// A table: names to the left; each column to the right, as wide as its widest cell.
pub(super) fn aligned(rows: &[Row]) -> String {
    let width = |text: &String| text.chars().count();
    let names = rows.iter().map(|(name, _)| width(name)).max().unwrap_or(0);
    let num_columns = rows.iter().map(|(_, cells)| cells.len()).max().unwrap_or(0);
    let columns: Vec<usize> = (0..num_columns)
        .map(|index| {
            let cells = rows.iter().filter_map(|(_, cells)| cells.get(index));
            cells.map(width).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for (name, cells) in rows {
        let mut line = format!("{name:<names$}");
        for (cell, column) in cells.iter().zip(&columns) {
            let _ = write!(line, "  {cell:>column$}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::past_run::sample;

    #[test]
    fn runs_stand_beside_each_other_with_what_differs() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = ["a", "longer"].map(|name| dir.path().join(name));
        for (dir, (losses, rate)) in dirs.iter().zip([
            (vec![3.0, 2.0], "0.001"),
            (vec![3.0, 2.5, 1.5, 1.0], "0.002"),
        ]) {
            std::fs::create_dir(dir).unwrap();
            let config = format!("seed = 1\n[training]\nlearning_rate = {rate}\n");
            sample(dir, &losses, &config);
        }
        let found = Comparison::of(&PastRun::read_all(&dirs).unwrap());
        assert_eq!(
            format!("\n{}", found.text(None)),
            "
                                      a  longer
steps                                 2       4
loss, mean of the last 20 steps  2.5000  2.0000
lowest validation loss           2.1000  1.1000
  after step                          2       4
validation loss after step 2     2.1000  2.6000
tokens                            1,000   2,000
tokens/s, median                  1,000   1,000
time in steps                     1.0 s   2.0 s
settings that differ:
training.learning_rate            0.001   0.002"
        );
        let narrow = found.text(Some(45));
        let tables: Vec<&str> = narrow.split("\n\n").collect();
        assert_eq!(tables.len(), 2, "{narrow}");
        assert!(tables[0].ends_with("\ntraining.learning_rate            0.001"));
        assert!(tables[1].ends_with("\ntraining.learning_rate            0.002"));
        assert!(narrow.lines().all(|line| line.len() <= 45), "{narrow}");
    }
}
