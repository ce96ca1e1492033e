//! What must hold of a job, whatever it has met.

use crate::life::{Ended, Record};
use crate::plan::{Plan, TIMEOUT, Trouble};
use crate::reference::{digest_of, reference};
use bootstrap::{Failure, FailureKind};
use hal::sync::{FaultKind, Halt};
use std::path::PathBuf;
use std::time::Duration;
use train::Error;

/// The longest that a job takes of which every rank speaks, if disk and network take no time. It is less than the timeout.
const USUAL: Duration = Duration::from_secs(2);

/// What the launcher adds to the timeout for ranks to end.
const GRACE: Duration = Duration::from_secs(5);

/// How a life has ended.
pub(crate) type End = Result<Ended, Halt>;

/// Judges the lives of a plan.
pub(crate) struct Judge<'a> {
    pub(crate) plan: &'a Plan,
    /// Where the checkpoints are.
    pub(crate) dir: PathBuf,
}

impl Judge<'_> {
    /// A life has ended as its trouble allows, and its report names who or what failed.
    pub(crate) fn ended(&self, end: &End, record: &Record) -> Result<(), String> {
        self.steps(record)?;
        let trouble = self.plan.trouble;
        let failure = match end {
            Err(_) => return Ok(()),
            Ok(Ok(())) => return self.success(record),
            Ok(Err(failure)) => failure,
        };
        let report = failure.report();
        let is_right = match trouble {
            Trouble::None
            | Trouble::SlowRank(_)
            | Trouble::SlowDisk(_)
            | Trouble::SlowNetwork(_) => false,
            // A cut link looks the same from both ends.
            Trouble::CutOff(rank, _) => {
                report.contains("waited") && (failure.rank == rank || waits_for(failure, rank))
            }
            Trouble::Process { rank, kind, .. } => match kind {
                FaultKind::Kill => failure.others.stuck == [rank],
                FaultKind::Stop(time) => {
                    time > TIMEOUT && !matches!(failure.kind, FailureKind::Panic(_))
                }
                FaultKind::Jump(_) | FaultKind::PowerCut => false,
            },
            Trouble::FullDisk(_) | Trouble::Refused(_) => {
                matches!(
                    failure.error(),
                    Some(Error::Checkpoint(_) | Error::Peer { .. })
                )
            }
            Trouble::Error(rank, _) => failure.rank == rank && report.contains("planned"),
            Trouble::Panic(rank, _) => {
                failure.rank == rank && matches!(failure.kind, FailureKind::Panic(_))
            }
        };
        match is_right {
            true => Ok(()),
            false => Err(format!("the report does not fit: {report}")),
        }
    }

    /// All steps were done, and recorded.
    fn success(&self, record: &Record) -> Result<(), String> {
        if matches!(self.plan.trouble, Trouble::Error(..) | Trouble::Panic(..)) {
            return Err("the job succeeded although a rank failed".into());
        }
        let steps = self.plan.config.training.steps;
        if record.losses.last().map(|(step, _)| step + 1) != Some(steps) {
            return Err(format!("it succeeded without its last step: {record:?}"));
        }
        self.bits()
    }

    /// Each step once, in order, with the loss of one rank.
    pub(crate) fn steps(&self, record: &Record) -> Result<(), String> {
        let begun = record.begun_at.unwrap_or(0);
        for (expected, (step, loss)) in (begun..).zip(&record.losses) {
            if *step != expected || reference().losses[*step as usize] != *loss {
                return Err(format!("steps and losses are {record:?}"));
            }
        }
        Ok(())
    }

    /// The last checkpoint holds the bits of one rank.
    pub(crate) fn bits(&self) -> Result<(), String> {
        match digest_of(&self.dir)? == reference().digest {
            true => Ok(()),
            false => Err("the last checkpoint has other bits than that of one rank".into()),
        }
    }

    /// Only of a rank that is silent does nobody know before the timeout, and it is given up after the grace period.
    pub(crate) fn time(&self, time: Duration, of_others: Duration) -> Result<(), String> {
        let silence = TIMEOUT * 2 + TIMEOUT + GRACE;
        let more = match self.plan.trouble {
            Trouble::Process { kind, .. } => match kind {
                FaultKind::Kill => silence,
                FaultKind::Stop(stopped) if stopped > TIMEOUT => silence + stopped,
                FaultKind::Stop(stopped) => stopped,
                FaultKind::Jump(_) | FaultKind::PowerCut => Duration::ZERO,
            },
            Trouble::CutOff(..) => silence,
            _ => Duration::ZERO,
        };
        let most = USUAL + of_others + more;
        match time <= most {
            true => Ok(()),
            false => Err(format!("it took {time:?}, more than {most:?}")),
        }
    }
}

/// Whether of a job only the launcher is left, and a rank that died when no other needed it any more.
pub(crate) fn nobody_waits(threads: &str) -> bool {
    let others = threads
        .split("), ")
        .filter(|thread| !thread.starts_with("the launcher"));
    let others: Vec<&str> = others.collect();
    let is_dead = |thread: &&str| thread.trim_end_matches(')').ends_with(", dead");
    !others.is_empty() && others.iter().all(is_dead)
}

/// Whether the failure is that others have waited for this rank.
fn waits_for(failure: &Failure<Error>, rank: usize) -> bool {
    let report = failure.report();
    let mut lists = report.split(" s for rank").skip(1);
    lists.any(|list| {
        let list = list.lines().next().unwrap_or_default();
        let mut named = list.split(|c: char| !c.is_ascii_digit());
        named.any(|number| number == rank.to_string())
    })
}
