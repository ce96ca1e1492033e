//! How a job failed: the rank that failed first, its error, and what happened to the others.

use crate::{
    progress::{LastSeen, together},
    ranks::{grouped, named},
};
use std::fmt;

/// A job that failed. It displays as one sentence; [`report`](Failure::report) has the details.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure<E> {
    /// The world rank that failed first.
    pub rank: usize,
    /// How it failed.
    pub kind: FailureKind<E>,
    /// The other ranks. Boxed, because results carry a failure by value.
    pub others: Box<Others>,
}

/// How the first rank failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FailureKind<E> {
    /// Its body returned an error.
    Error(E),
    /// Its body panicked: the place and the message.
    Panic(String),
    /// It raised the abort signal for this reason, and then did not return.
    Stuck(String),
    /// It raised the abort signal for this reason, and then every rank returned without an error.
    Raised(String),
    /// It could not be started.
    NotStarted(String),
}

/// What happened to the ranks other than the first that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Further ranks that failed, in the order in which they ended; most of them were stopped by the first
    /// failure.
    pub failed: Vec<(usize, String)>,
    /// Ranks that had not returned when the grace period ended. Their threads are left behind.
    pub stuck: Vec<usize>,
    /// Ranks of other processes that did not report what they were doing when asked.
    pub silent: Vec<usize>,
    /// What every rank was last doing when the first rank failed, and for stuck ranks, when they were
    /// abandoned.
    pub last_seen: Vec<LastSeen>,
}

impl<E> Failure<E> {
    /// The first rank's own error, if it returned one.
    pub fn error(&self) -> Option<&E> {
        match &self.kind {
            FailureKind::Error(error) => Some(error),
            _ => None,
        }
    }
}

impl<E: fmt::Display> Failure<E> {
    /// Everything known, one item per line: the failure, the ranks that failed after it, and what each rank was
    /// last doing. Ranks with the same to say share a line.
    pub fn report(&self) -> String {
        let Others {
            failed, last_seen, ..
        } = &*self.others;
        let mut lines = vec![self.to_string()];
        let said = self.kind.to_string();
        let later = failed.iter().map(|(rank, reason)| (reason, *rank));
        lines.extend(grouped(later).into_iter().map(|(reason, ranks)| {
            let reason = if *reason == said { "the same" } else { reason };
            format!("then {} failed: {reason}", named(ranks))
        }));
        let seen = last_seen.iter().map(|seen| (&seen.what, seen));
        lines.extend(grouped(seen).into_iter().map(|(_, seen)| together(&seen)));
        lines.join("\n")
    }
}

impl<E: fmt::Display> fmt::Display for FailureKind<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailureKind::Error(error) => error.fmt(f),
            FailureKind::Panic(reason)
            | FailureKind::Stuck(reason)
            | FailureKind::Raised(reason)
            | FailureKind::NotStarted(reason) => f.write_str(reason),
        }
    }
}

impl<E: fmt::Display> fmt::Display for Failure<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            FailureKind::NotStarted(_) => {
                write!(f, "rank {} did not start: {}", self.rank, self.kind)?
            }
            _ => write!(f, "rank {} failed: {}", self.rank, self.kind)?,
        }
        self.others
            .stuck
            .iter()
            .try_for_each(|&rank| self.others.write_stuck(rank, f))?;
        let silent = |rank| write!(f, "; rank {rank} does not answer: stopped, dead or cut off");
        self.others.silent.iter().try_for_each(silent)
    }
}

impl Others {
    fn write_stuck(&self, rank: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last_seen.iter().find(|seen| seen.rank == rank) {
            Some(LastSeen { what, age, .. }) => {
                write!(
                    f,
                    "; rank {rank} is stuck, last in `{what}` {:.1} s ago",
                    age.as_secs_f64()
                )
            }
            None => write!(f, "; rank {rank} is stuck"),
        }
    }
}

impl<E: fmt::Display + fmt::Debug> std::error::Error for Failure<E> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn sample() -> Failure<&'static str> {
        let seen = |rank, what: &str, age| LastSeen {
            rank,
            what: what.into(),
            age: Duration::from_secs(age),
        };
        let last_seen = vec![
            seen(0, "step 17 forward", 61),
            seen(1, "step 16 backward", 66),
        ];
        let others = Others {
            failed: vec![(2, "stopped".into())],
            stuck: vec![1],
            silent: vec![],
            last_seen,
        };
        Failure {
            rank: 3,
            kind: FailureKind::Error("no more tokens"),
            others: Box::new(others),
        }
    }

    #[test]
    fn one_sentence_names_the_first_and_the_stuck() {
        let text =
            "rank 3 failed: no more tokens; rank 1 is stuck, last in `step 16 backward` 66.0 s ago";
        assert_eq!(sample().to_string(), text);
        let kind = FailureKind::<String>::NotStarted("no thread".into());
        let mut failure = Failure {
            rank: 2,
            kind,
            others: Box::default(),
        };
        assert_eq!(failure.to_string(), "rank 2 did not start: no thread");
        failure.others.silent = vec![7];
        assert!(
            failure
                .to_string()
                .ends_with("; rank 7 does not answer: stopped, dead or cut off")
        );
    }

    #[test]
    fn the_report_has_every_rank() {
        let report = sample().report();
        let lines: Vec<_> = report.lines().skip(1).collect();
        assert_eq!(lines[0], "then rank 2 failed: stopped");
        assert_eq!(lines[1], "rank 0 was last in `step 17 forward` 61.0 s ago");
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn a_failure_of_all_is_said_once() {
        let mut failure = sample();
        failure.others.failed = [0, 2, 1].map(|rank| (rank, "no more tokens".into())).into();
        failure.others.failed.push((4, "stopped".into()));
        failure
            .others
            .last_seen
            .iter_mut()
            .for_each(|seen| seen.what = "step 17".into());
        let report = failure.report();
        let lines: Vec<_> = report.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "then ranks 0 to 2 failed: the same",
                "then rank 4 failed: stopped",
                "ranks 0 and 1 were last in `step 17` 61.0 to 66.0 s ago"
            ]
        );
    }

    #[test]
    fn a_failure_with_hals_error_is_small_enough_for_results() {
        // Clippy calls an error large from 128 bytes on.
        assert!(
            size_of::<Failure<hal::Error>>() < 128,
            "{} bytes",
            size_of::<Failure<hal::Error>>()
        );
    }
}
