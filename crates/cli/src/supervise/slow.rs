//! Hosts that a run itself finds slow while it trains.

use super::hosts::{self, Host};
use crate::numbers::grouped;
use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};
use train::{
    metrics,
    run::{PATIENCE, SpeedRecord},
};

/// A host with a straggler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slow {
    /// Its name in the list of hosts.
    pub(super) host: String,
    /// What the run says of it.
    pub(super) why: String,
}

/// What a run writes of its ranks' speeds from one start on.
#[derive(Debug)]
pub(super) struct Reports {
    path: PathBuf,
    // The file as it was when it was last looked at: lines of an earlier start speak of other hosts.
    seen: Option<(u64, SystemTime)>,
    first_step: u64,
}

impl Reports {
    /// Those of a run that has done `first_step` steps when it starts.
    pub(super) fn new(run: &Path, first_step: u64) -> Reports {
        let path = run.join("speeds.jsonl");
        Reports {
            seen: state(&path),
            path,
            first_step,
        }
    }

    /// The first host of which the newest report has a straggler, where `hosts` are those of the run.
    pub(super) fn slow(&mut self, hosts: &[Host]) -> Option<Slow> {
        let now = state(&self.path);
        if now == self.seen {
            return None;
        }
        self.seen = now;
        let records = metrics::read::<SpeedRecord>(&self.path).ok()?;
        let newest = records
            .last()
            .filter(|record| record.step > self.first_step)?;
        let slow = newest.slow.iter().find(|slow| slow.times >= PATIENCE)?;
        Some(Slow {
            host: hosts::host_of(hosts, slow.rank)?.to_owned(),
            why: format!(
                "slow in {} measurements in a row up to step {}: {:.3} of the median's Tflop/s, {:.3} of its copies",
                slow.times,
                grouped(newest.step),
                slow.tflops / newest.tflops,
                slow.copy_gbps / newest.copy_gbps
            ),
        })
    }
}

fn state(path: &Path) -> Option<(u64, SystemTime)> {
    let found = fs::metadata(path).ok()?;
    Some((found.len(), found.modified().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use train::{metrics::LineWriter, run::SlowRank};

    fn record(step: u64, rank: usize, times: u32) -> SpeedRecord {
        let slow = SlowRank {
            rank,
            host: "node".into(),
            tflops: 0.5,
            copy_gbps: 10.0,
            times,
        };
        SpeedRecord {
            step,
            tflops: 1.0,
            copy_gbps: 10.0,
            slow: vec![slow],
        }
    }

    #[test]
    fn only_a_straggler_of_this_start_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let hosts = hosts::parse("", "a:2,b:2", None).unwrap();
        let mut lines = LineWriter::create(&dir.path().join("speeds.jsonl")).unwrap();
        lines.write(&record(30, 0, 3)).unwrap();
        let mut reports = Reports::new(dir.path(), 20);
        assert_eq!(reports.slow(&hosts), None, "a line of the start before");
        lines.write(&record(40, 3, 2)).unwrap();
        assert_eq!(reports.slow(&hosts), None, "slow twice");
        lines.write(&record(50, 3, 3)).unwrap();
        let slow = reports.slow(&hosts).unwrap();
        assert_eq!(slow.host, "b");
        assert_eq!(
            slow.why,
            "slow in 3 measurements in a row up to step 50: 0.500 of the median's Tflop/s, 1.000 of its copies"
        );
        assert_eq!(reports.slow(&hosts), None, "nothing new");
        lines.write(&record(60, 7, 3)).unwrap();
        assert_eq!(reports.slow(&hosts), None, "no rank of these hosts");
        lines.write(&record(15, 0, 3)).unwrap();
        assert_eq!(reports.slow(&hosts), None, "a step before this start");
    }
}
