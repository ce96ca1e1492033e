//! The report at the end of a run.

use crate::{
    numbers::{counted, duration, grouped},
    run_dir,
};
use hal::error::Bytes;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    time::Duration,
};
use train::{
    Summary,
    checkpoint::replace_file,
    run::{AxisTraffic, BestValidation, StoreReport},
};

/// The file of a run's folder that holds how it ended.
const FILE: &str = "ending.json";

/// How a run ended, for people and programs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Ending {
    /// The run's folder.
    pub(crate) run: PathBuf,
    /// Number of steps done in all.
    pub(crate) steps: u64,
    /// Loss of the last step.
    pub(crate) loss: f64,
    /// Validation loss after the last step, unless the run was asked to end early.
    pub(crate) validation_loss: Option<f64>,
    /// Seconds of training in this run.
    pub(crate) seconds: f64,
    /// Whether the run was asked to end early.
    pub(crate) stopped: bool,
    /// The lowest validation loss, if the run ended because no lower one followed.
    pub(crate) out_of_patience: Option<BestValidation>,
    /// The last checkpoint.
    pub(crate) checkpoint: Option<PathBuf>,
    /// What was copied to the run's store, if it has one.
    pub(crate) stored: Option<StoreReport>,
    /// The most bytes that tensors held at one time on one rank's device.
    pub(crate) peak_bytes: usize,
    /// That rank.
    pub(crate) peak_rank: usize,
    /// Those bytes by the tensors' purpose.
    pub(crate) peak_by_kind: BTreeMap<String, usize>,
    /// The most bytes of the host's memory that copies for checkpoints took on one rank.
    pub(crate) snapshot_bytes: usize,
    /// What the collectives of one step move along each axis.
    pub(crate) traffic: Vec<AxisTraffic>,
    /// Text that the model wrote.
    pub(crate) sample: Option<String>,
}

impl Ending {
    /// Built from what rank 0 knows.
    pub(crate) fn new(run: PathBuf, summary: Summary) -> Ending {
        let Summary {
            steps,
            loss,
            validation_loss,
            seconds,
            stopped,
            out_of_patience,
            sample,
            checkpoint,
            stored,
            peak,
            traffic,
        } = summary;
        let kinds = peak.kinds().map(|(kind, bytes)| (kind.to_owned(), bytes));
        let (peak_bytes, peak_rank, peak_by_kind) = (peak.bytes, peak.rank, kinds.collect());
        Ending {
            run,
            steps,
            loss,
            validation_loss,
            seconds,
            stopped,
            out_of_patience,
            checkpoint,
            stored,
            peak_bytes,
            peak_rank,
            peak_by_kind,
            snapshot_bytes: peak.snapshot_bytes,
            traffic,
            sample,
        }
    }

    /// Writes it into the run's folder, for `fascicle report`.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn write(&self, dir: &Path) -> io::Result<()> {
        replace_file(&dir.join(FILE), &serde_json::to_vec(self)?)
    }

    /// The ending of a run in a folder, if it has ended.
    pub(crate) fn read(dir: &Path) -> Option<Ending> {
        let text = hal::files::read_text(&dir.join(FILE)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Removes that of an earlier part of a run, which continues.
    pub(crate) fn remove(dir: &Path) {
        std::fs::remove_file(dir.join(FILE)).ok();
    }

    // The peak memory by purpose, largest first.
    fn memory(&self) -> String {
        let mut kinds: Vec<_> = self.peak_by_kind.iter().collect();
        kinds.sort_by_key(|(_, bytes)| std::cmp::Reverse(**bytes));
        let kinds: Vec<_> = kinds
            .iter()
            .map(|(kind, bytes)| format!("{kind} {}", Bytes(**bytes)))
            .collect();
        let copies = match self.snapshot_bytes {
            0 => String::new(),
            bytes => format!("; and {} of a host's for checkpoints", Bytes(bytes)),
        };
        format!(
            "peak memory {}, on rank {}: {}{copies}",
            Bytes(self.peak_bytes),
            self.peak_rank,
            kinds.join(", ")
        )
    }

    /// The report at the end.
    pub(crate) fn text(&self) -> String {
        let how = if self.stopped {
            "stopped after step"
        } else {
            "done: step"
        };
        let time = duration(Duration::try_from_secs_f64(self.seconds).unwrap_or_default());
        let validation = self
            .validation_loss
            .map_or_else(String::new, |loss| format!("validation loss {loss:.4}, "));
        let mut text = format!(
            "{how} {}: loss {:.4}, {validation}{time}\n{}",
            grouped(self.steps),
            self.loss,
            self.memory()
        );
        if let Some(best) = &self.out_of_patience {
            text += &format!("\nended early: {}", best_validation(best));
        }
        if let Some(stored) = &self.stored {
            text += &format!("\n{}", copied(stored));
        }
        if let Some(sample) = &self.sample {
            text += &format!(
                "\nthe model writes:\n{}",
                indented(sample.trim_matches('\n'))
            );
        }
        let dir = self.run.display();
        text += &format!(
            "\nrun directory {dir}: {}",
            run_dir::contents(&self.run).join(", ")
        );
        if self.stopped {
            text += &format!("\nto resume: fascicle train --resume {dir}");
        }
        text
    }
}

/// What a run that ends early has found.
pub(crate) fn best_validation(best: &BestValidation) -> String {
    let validations = counted(best.since as usize, "validation");
    format!(
        "{validations} found no lower loss than {:.4}, that of step {}",
        best.loss,
        grouped(best.step)
    )
}

// What a run has copied to its store.
fn copied(stored: &StoreReport) -> String {
    let copied = counted(stored.num_copied, "checkpoint");
    let bytes = Bytes(usize::try_from(stored.num_bytes).unwrap_or(usize::MAX));
    let newest = stored.step.map_or_else(String::new, |step| {
        format!(" ({bytes}), the newest of step {}", grouped(step))
    });
    let failed = match (stored.num_failures, &stored.failure) {
        (0, _) => String::new(),
        (times, None) => format!("; {} in between", counted(times, "failure")),
        (times, Some(last)) => format!("; {}, the last: {last}", counted(times, "failure")),
    };
    format!("copied {copied}{newest} to {}{failed}", stored.url)
}

/// Indented behind a bar, so that the text cannot be mistaken for the program's own words.
pub(crate) fn indented(text: &str) -> String {
    let lines = text.split('\n').map(|line| format!("  | {line}"));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use train::PeakMemory;

    #[test]
    fn a_stopped_run_says_how_to_go_on() {
        let summary = Summary {
            steps: 1200,
            loss: 2.0,
            validation_loss: None,
            seconds: 61.0,
            stopped: true,
            out_of_patience: None,
            sample: None,
            checkpoint: None,
            stored: None,
            peak: PeakMemory {
                rank: 3,
                bytes: 7 << 20,
                by_kind: [2 << 20, 0, 5 << 20, 0, 0, 0],
                snapshot_bytes: 6 << 20,
            },
            traffic: Vec::new(),
        };
        let text = Ending::new("runs/a".into(), summary.clone()).text();
        assert!(
            text.starts_with("stopped after step 1,200: loss 2.0000, 1 min 01 s\n"),
            "{text}"
        );
        assert!(
            text.contains(
                "\npeak memory 7.0 MiB, on rank 3: optimiser 5.0 MiB, weights 2.0 MiB; and 6.0 MiB of a host's for checkpoints\n"
            ),
            "{text}"
        );
        assert!(
            text.ends_with("to resume: fascicle train --resume runs/a"),
            "{text}"
        );
        let done = Summary {
            stopped: false,
            validation_loss: Some(2.125),
            sample: Some("\nfn main\n".into()),
            ..summary.clone()
        };
        let text = Ending::new("runs/a".into(), done).text();
        let first = "done: step 1,200: loss 2.0000, validation loss 2.1250, 1 min 01 s\n";
        assert!(text.starts_with(first), "{text}");
        assert!(text.contains("the model writes:\n  | fn main\n"), "{text}");
        let early = Summary {
            stopped: false,
            out_of_patience: Some(BestValidation {
                loss: 1.5,
                step: 1000,
                since: 2,
            }),
            ..summary
        };
        let text = Ending::new("runs/a".into(), early).text();
        let why =
            "\nended early: 2 validations found no lower loss than 1.5000, that of step 1,000\n";
        assert!(text.contains(why) && !text.contains("resume"), "{text}");
    }
}
