//! `fascicle metrics`: the records of runs for other programs.

use crate::{
    failure::{Failure, Outcome},
    output,
    past_run::PastRun,
};
use clap::Args;
use std::{collections::BTreeSet, fmt::Write, path::PathBuf};
use train::{
    metrics::{EventWriter, Record},
    preference::PreferenceMetrics,
};

/// Arguments of `fascicle metrics`.
#[derive(Args, Debug)]
pub(crate) struct Metrics {
    /// Run directories
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Write event files for TensorBoard instead, in a folder of each run's name in this one
    #[arg(long, value_name = "DIR")]
    tensorboard: Option<PathBuf>,
}

/// The columns of a table, in their order; behind them one for each set that a run has validated on, and those of pairs if a run
/// has some.
const COLUMNS: &str = "run,step,loss,val_loss,grad_norm,lr,tokens,tokens_per_s,step_s,time,loss_scale,\
                       flop_per_s,mfu,memory_bytes,peak_memory_bytes";

impl Metrics {
    /// Prints the table, or writes the files.
    pub(crate) fn run(&self) -> Outcome {
        let runs = PastRun::read_all(&self.runs)?;
        let Some(board) = &self.tensorboard else {
            return output::verbatim(&table(&runs));
        };
        for run in &runs {
            let folder = board.join(&run.name);
            // TensorBoard would draw two files of one run over each other.
            if folder.exists() {
                let folder = folder.display();
                return Err(Failure::Usage(format!(
                    "--tensorboard: {folder} exists, needs a folder without the run's files"
                )));
            }
            let mut events = EventWriter::create(&folder, 0).map_err(Failure::run)?;
            for record in &run.records {
                events.write(record).map_err(Failure::run)?;
            }
            output::path(&folder)?;
        }
        Ok(())
    }
}

fn table(runs: &[PastRun]) -> String {
    let records = || runs.iter().flat_map(|run| &run.records);
    let sets: BTreeSet<&String> = records()
        .flat_map(|record| record.val_losses.keys())
        .collect();
    let mut table = COLUMNS.to_owned();
    for set in &sets {
        table += &format!(",{}", quoted(&format!("val_loss {set}")));
    }
    let has_pairs = records().any(|record| record.preferences.is_some());
    if has_pairs {
        let names = PreferenceMetrics::default().named().map(|(name, _)| name);
        let of_validation = names.map(|name| format!("val_{name}"));
        table += &format!(",{},{}", names.join(","), of_validation.join(","));
    }
    for run in runs {
        let name = quoted(&run.name);
        for record in &run.records {
            let _ = write!(table, "\n{name},{}", line(record));
            for set in &sets {
                let loss = record.val_losses.get(*set).map(f64::to_string);
                let _ = write!(table, ",{}", loss.unwrap_or_default());
            }
            if has_pairs {
                table += &cells(record.preferences.as_ref());
                table += &cells(record.val_preferences.as_ref());
            }
        }
    }
    table
}

fn line(record: &Record) -> String {
    let some = |number: Option<f64>| number.map_or_else(String::new, |number| number.to_string());
    let bytes = |bytes: Option<u64>| some(bytes.map(|bytes| bytes as f64));
    let cells = [
        record.step.to_string(),
        record.loss.to_string(),
        some(record.val_loss),
        record.grad_norm.to_string(),
        record.lr.to_string(),
        record.tokens.to_string(),
        record.tokens_per_s.to_string(),
        record.step_s.to_string(),
        record.time.to_string(),
        some(record.loss_scale),
        some(record.flop_per_s),
        some(record.mfu),
        bytes(record.memory_bytes),
        bytes(record.peak_memory_bytes),
    ];
    cells.join(",")
}

// What is reported of pairs, each number behind a comma.
fn cells(pairs: Option<&PreferenceMetrics>) -> String {
    let blank = PreferenceMetrics::default().named().map(|_| ",".into());
    let cells = pairs.map(|pairs| pairs.named().map(|(_, number)| format!(",{number}")));
    cells.unwrap_or(blank).concat()
}

// As RFC 4180 has it.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::past_run::sample;

    #[test]
    fn pairs_have_columns_where_a_run_has_some() {
        let record = Record {
            preferences: Some(PreferenceMetrics {
                accuracy: 0.75,
                ..PreferenceMetrics::default()
            }),
            ..Record::default()
        };
        let run = PastRun {
            dir: PathBuf::new(),
            name: "a".into(),
            records: vec![record],
            settings: Default::default(),
        };
        let table = table(&[run]);
        let (head, line) = table.split_once('\n').unwrap();
        assert!(
            head.ends_with(",val_logps/chosen,val_logps/rejected"),
            "{head}"
        );
        assert!(line.ends_with(",0,0,0.75,0,0,0,,,,,,"), "{line}");
        assert_eq!(head.split(',').count(), line.split(',').count());
    }

    #[test]
    fn a_table_has_a_line_for_each_step() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("a,b");
        std::fs::create_dir(&run).unwrap();
        sample(&run, &[3.0, f64::NAN], "");
        let runs = PastRun::read_all(&[run]).unwrap();
        let table = table(&runs);
        let lines: Vec<&str> = table.lines().collect();
        let columns = COLUMNS.split(',').count();
        assert_eq!(
            lines[1..],
            [
                "\"a,b\",1,3,,1,0.001,500,1000,0.5,1700000001,,,,,",
                "\"a,b\",2,NaN,NaN,1,0.001,1000,1000,0.5,1700000002,,,,,"
            ]
        );
        assert_eq!(
            lines[1].split(',').count(),
            columns + 1,
            "the name has one more"
        );
    }
}
