//! Decides which rank failed first, and the outcome of the job.

use super::rank::Outcome;
use crate::failure::{Failure, FailureKind, Others};
use crate::progress::LastSeen;
use std::fmt;

/// Everything known once the ranks have ended or were abandoned.
pub(super) struct Evidence<T, E> {
    /// How ranks ended, in the order in which they ended.
    pub(super) ends: Vec<(usize, Outcome<T, E>)>,
    /// Ranks that did not end.
    pub(super) stuck: Vec<usize>,
    /// The rank that raised the abort signal first, and its reason.
    pub(super) raised: Option<(usize, String)>,
    /// What the ranks were doing when that happened.
    pub(super) at_failure: Vec<LastSeen>,
    /// What they are doing now.
    pub(super) now: Vec<LastSeen>,
}

/// The values in the order of ranks, or the failure.
///
/// The rank that raised the signal first is the one that failed; the errors of the others mostly follow from
/// it.
pub(super) fn judge<T, E: fmt::Display>(evidence: Evidence<T, E>) -> Result<Vec<T>, Failure<E>> {
    let Evidence {
        mut ends,
        stuck,
        raised,
        at_failure,
        now,
    } = evidence;
    let Some((raiser, reason)) = raised else {
        return Ok(values(ends));
    };
    let (rank, kind) = match first(&ends, &stuck, raiser) {
        Some(index) => take(&mut ends, index, reason),
        None if stuck.contains(&raiser) => (raiser, FailureKind::Stuck(reason)),
        None => (raiser, FailureKind::Raised(reason)),
    };
    let failed = ends
        .into_iter()
        .filter_map(|(rank, end)| Some((rank, end.err()?.to_string())))
        .collect();
    let last_seen = merge(at_failure, now, &stuck);
    Err(Failure {
        rank,
        kind,
        others: Box::new(Others {
            failed,
            stuck,
            silent: Vec::new(),
            last_seen,
        }),
    })
}

/// The index in `ends` of the first failure: that of the rank that raised the signal, otherwise the earliest;
/// `None` if the raising rank is still running.
fn first<T, E>(ends: &[(usize, Outcome<T, E>)], stuck: &[usize], raiser: usize) -> Option<usize> {
    let own = ends
        .iter()
        .position(|(rank, end)| *rank == raiser && end.is_err());
    let earliest = || ends.iter().position(|(_, end)| end.is_err());
    own.or_else(|| {
        if stuck.contains(&raiser) {
            None
        } else {
            earliest()
        }
    })
}

fn take<T, E>(
    ends: &mut Vec<(usize, Outcome<T, E>)>,
    index: usize,
    reason: String,
) -> (usize, FailureKind<E>) {
    let (rank, end) = ends.remove(index);
    (rank, end.err().unwrap_or(FailureKind::Raised(reason)))
}

fn values<T, E>(mut ends: Vec<(usize, Outcome<T, E>)>) -> Vec<T> {
    ends.sort_by_key(|(rank, _)| *rank);
    ends.into_iter().filter_map(|(_, end)| end.ok()).collect()
}

/// For a stuck rank its present state, so that its age includes the grace period; for the others their state at
/// the failure.
fn merge(at_failure: Vec<LastSeen>, now: Vec<LastSeen>, stuck: &[usize]) -> Vec<LastSeen> {
    let pairs = at_failure.into_iter().zip(now);
    pairs
        .map(|(then, now)| {
            if stuck.contains(&then.rank) {
                now
            } else {
                then
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Ends = Vec<(usize, Outcome<char, &'static str>)>;

    fn verdict(
        ends: Ends,
        stuck: &[usize],
        raised: Option<usize>,
    ) -> Result<Vec<char>, Failure<&'static str>> {
        let raised = raised.map(|rank| (rank, "no link".into()));
        judge(Evidence {
            ends,
            stuck: stuck.into(),
            raised,
            at_failure: vec![],
            now: vec![],
        })
    }

    #[test]
    fn values_come_in_the_order_of_ranks() {
        assert_eq!(
            verdict(vec![(1, Ok('b')), (0, Ok('a'))], &[], None),
            Ok(vec!['a', 'b'])
        );
    }

    #[test]
    fn the_raiser_is_first_though_others_ended_before_it() {
        let ends = vec![
            (0, Err(FailureKind::Error("echo"))),
            (1, Ok('b')),
            (2, Err(FailureKind::Error("cause"))),
        ];
        let failure = verdict(ends, &[], Some(2)).unwrap_err();
        assert_eq!(
            (failure.rank, failure.kind),
            (2, FailureKind::Error("cause"))
        );
        assert_eq!(failure.others.failed, [(0, "echo".into())]);
    }

    #[test]
    fn a_raiser_that_recovered_leaves_it_to_the_earliest_error() {
        let ends = vec![
            (2, Ok('c')),
            (1, Err(FailureKind::Error("first"))),
            (0, Err(FailureKind::Error("second"))),
        ];
        let failure = verdict(ends, &[], Some(2)).unwrap_err();
        assert_eq!((failure.rank, failure.error()), (1, Some(&"first")));
    }

    #[test]
    fn a_raiser_without_an_error_of_its_own_is_told_with_its_reason() {
        let failure =
            verdict(vec![(0, Err(FailureKind::Error("echo")))], &[1], Some(1)).unwrap_err();
        assert_eq!(
            (failure.rank, failure.kind),
            (1, FailureKind::Stuck("no link".into()))
        );
        let failure = verdict(vec![(0, Ok('a')), (1, Ok('b'))], &[], Some(1)).unwrap_err();
        assert_eq!(
            (failure.rank, failure.kind),
            (1, FailureKind::Raised("no link".into()))
        );
    }
}
