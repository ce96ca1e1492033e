//! What a run has left in its folder: the records of its steps and its settings.

use crate::{
    failure::{Failure, Outcome},
    numbers::Spread,
};
use grid::Degrees;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use train::metrics::{self, PeakByKind, Record};

/// Steps over which the loss of a run is averaged: that of one step depends on its batch.
const LAST: usize = 20;

/// A run, finished or not.
#[derive(Clone, Debug)]
pub(crate) struct PastRun {
    /// Its folder.
    pub(crate) dir: PathBuf,
    /// The name by which it is called here.
    pub(crate) name: String,
    /// One for each step.
    pub(crate) records: Vec<Record>,
    /// The keys of its configuration, as in `training.steps`, with their values in TOML; empty if there is no configuration.
    pub(crate) settings: BTreeMap<String, String>,
}

impl PastRun {
    /// Reads the run in a folder.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a folder without records of a step; [`Failure::Run`] for records that cannot be read.
    pub(crate) fn read(dir: &Path) -> Outcome<PastRun> {
        let path = dir.join("metrics.jsonl");
        if !path.exists() {
            return Err(Failure::Usage(format!(
                "{}: found no metrics.jsonl, needs the folder of a run",
                dir.display()
            )));
        }
        let records: Vec<Record> = metrics::read(&path).map_err(Failure::run)?;
        if records.is_empty() {
            let path = path.display();
            return Err(Failure::Usage(format!(
                "{path}: found no step, needs a run that has done one"
            )));
        }
        let named = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let name = named.file_name().unwrap_or(named.as_os_str());
        Ok(PastRun {
            dir: dir.to_owned(),
            name: name.to_string_lossy().into_owned(),
            records,
            settings: settings(&dir.join("config.toml")),
        })
    }

    /// Reads several, and calls those of one name by their paths.
    ///
    /// # Errors
    /// As [`read`](PastRun::read).
    pub(crate) fn read_all(dirs: &[PathBuf]) -> Outcome<Vec<PastRun>> {
        let runs: Outcome<Vec<PastRun>> = dirs.iter().map(|dir| PastRun::read(dir)).collect();
        let mut runs = runs?;
        let names: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
        for run in &mut runs {
            if names.iter().filter(|name| **name == run.name).count() > 1 {
                run.name = run.dir.display().to_string();
            }
        }
        Ok(runs)
    }

    /// The last record.
    pub(crate) fn last(&self) -> &Record {
        self.records.last().expect("a run was read with a record")
    }

    /// The steps of the complete run, by its configuration; those done if it does not say.
    pub(crate) fn num_steps(&self) -> u64 {
        let stated = self.settings.get("training.steps");
        stated
            .and_then(|steps| steps.parse().ok())
            .unwrap_or(self.last().step)
    }

    /// The mean loss of the last steps, in nats.
    pub(crate) fn loss(&self) -> f64 {
        let last = &self.records[self.records.len().saturating_sub(LAST)..];
        last.iter().map(|record| record.loss).sum::<f64>() / last.len() as f64
    }

    /// The lowest validation loss and its step.
    pub(crate) fn best_validation(&self) -> Option<(f64, u64)> {
        let validated = self
            .records
            .iter()
            .filter_map(|record| Some((record.val_loss?, record.step)));
        validated
            .filter(|(loss, _)| loss.is_finite())
            .min_by(|one, other| one.0.total_cmp(&other.0))
    }

    /// The validation loss after a step.
    pub(crate) fn validation_at(&self, step: u64) -> Option<f64> {
        let found = self.records.iter().find(|record| record.step == step);
        found.and_then(|record| record.val_loss)
    }

    /// The median speed in tokens per second.
    pub(crate) fn tokens_per_s(&self) -> f64 {
        let speeds: Vec<f64> = self
            .records
            .iter()
            .map(|record| record.tokens_per_s)
            .collect();
        Spread::of(&speeds).median
    }

    /// The median of a number that steps may lack, as those of earlier releases do; nothing where all lack it.
    pub(crate) fn median_of(&self, number: fn(&Record) -> Option<f64>) -> Option<f64> {
        let numbers: Vec<f64> = self.records.iter().filter_map(number).collect();
        (!numbers.is_empty()).then(|| Spread::of(&numbers).median)
    }

    /// The most bytes that tensors held on a rank.
    pub(crate) fn peak_memory(&self) -> Option<u64> {
        let peaks = self.records.iter();
        peaks.filter_map(|record| record.peak_memory_bytes).max()
    }

    /// The rank that held the most, and what it held by kind; nothing where an earlier release did not record it.
    pub(crate) fn peak_by_kind(&self) -> Option<&PeakByKind> {
        let peaks = self.records.iter();
        let peaks =
            peaks.filter_map(|record| Some((record.peak_memory_bytes?, record.peak.as_ref()?)));
        let highest = peaks.max_by_key(|(bytes, _)| *bytes)?;
        Some(highest.1)
    }

    /// Seconds in steps, without validations and checkpoints.
    pub(crate) fn seconds(&self) -> f64 {
        self.records.iter().map(|record| record.step_s).sum()
    }

    /// Tokens trained on; nothing where an earlier release did not count them.
    pub(crate) fn tokens(&self) -> Option<u64> {
        Some(self.last().tokens).filter(|tokens| *tokens > 0)
    }
}

/// The last step after which all of these runs have validated.
pub(crate) fn last_common_validation(runs: &[PastRun]) -> Option<u64> {
    let (first, others) = runs.split_first()?;
    let validated = first
        .records
        .iter()
        .rev()
        .filter(|record| record.val_loss.is_some());
    validated
        .map(|record| record.step)
        .find(|step| others.iter().all(|run| run.validation_at(*step).is_some()))
}

fn settings(path: &Path) -> BTreeMap<String, String> {
    let text = hal::files::read_text(path).unwrap_or_default();
    let table: toml::Table = text.parse().unwrap_or_default();
    let mut found = BTreeMap::new();
    for (name, value) in table {
        match value {
            toml::Value::Table(keys) => found.extend(
                keys.into_iter()
                    .map(|(key, value)| (format!("{name}.{key}"), in_words(&value))),
            ),
            value => drop(found.insert(name, in_words(&value))),
        }
    }
    found
}

// A grid as flags have it, and any other value as the file has it.
fn in_words(value: &toml::Value) -> String {
    match value.clone().try_into::<Degrees>() {
        Ok(degrees) if value.is_table() => degrees.to_string(),
        _ => value.to_string(),
    }
}

/// A loss with four digits: those after them are noise.
pub(crate) fn nats(loss: f64) -> String {
    format!("{loss:.4}")
}

#[cfg(test)]
pub(crate) fn sample(dir: &Path, losses: &[f64], config: &str) {
    let mut lines = metrics::MetricsWriter::create(&dir.join("metrics.jsonl")).unwrap();
    for (step, loss) in (1..).zip(losses) {
        let record = Record {
            step,
            loss: *loss,
            grad_norm: 1.0,
            lr: 1e-3,
            tokens_per_s: 1000.0,
            step_s: 0.5,
            tokens: 500 * step,
            time: 1.7e9 + step as f64,
            val_loss: step.is_multiple_of(2).then_some(loss + 0.1),
            ..Record::default()
        };
        lines.write(&record).unwrap();
    }
    std::fs::write(dir.join("config.toml"), config).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_read_with_its_settings() {
        let dir = tempfile::tempdir().unwrap();
        sample(
            dir.path(),
            &[3.0, 2.0, 1.0, 1.5],
            "seed = 3\n[parallel]\ngrid = { x = 2, data = 4 }\n[training]\nsteps = 4\n",
        );
        let run = PastRun::read(dir.path()).unwrap();
        assert_eq!((run.loss(), run.seconds()), (1.875, 2.0));
        assert_eq!(run.best_validation(), Some((1.6, 4)));
        assert_eq!((run.tokens(), run.tokens_per_s()), (Some(2000), 1000.0));
        let settings: Vec<_> = run.settings.iter().collect();
        let expected = [
            ("parallel.grid", "x=2,y=1,z=1,data=4,pipeline=1"),
            ("seed", "3"),
            ("training.steps", "4"),
        ];
        assert_eq!(settings.len(), expected.len());
        for ((key, value), expected) in settings.into_iter().zip(expected) {
            assert_eq!((key.as_str(), value.as_str()), expected);
        }
        let other = tempfile::tempdir().unwrap();
        sample(other.path(), &[3.0, 2.0], "");
        let other = PastRun::read(other.path()).unwrap();
        assert_eq!(last_common_validation(&[run, other]), Some(2));
    }

    #[test]
    fn what_is_no_run_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |dir: &Path| PastRun::read(dir).unwrap_err();
        let text = refused(dir.path())
            .sentence()
            .unwrap_or_default()
            .to_owned();
        assert!(text.contains("found no metrics.jsonl"), "{text}");
        sample(dir.path(), &[], "");
        let text = refused(dir.path())
            .sentence()
            .unwrap_or_default()
            .to_owned();
        assert!(text.contains("found no step"), "{text}");
    }
}
