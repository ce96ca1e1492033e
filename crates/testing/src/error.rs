//! Why a model fails the check.

use crate::Report;
use bootstrap::Failure;
use grid::Degrees;

/// Why a model fails the check.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It fails to train on one rank.
    #[error("on one rank: {0}")]
    Serial(#[source] TrainingError),
    /// It fails on a grid where it should train.
    #[error("grid {degrees}: {source}")]
    Grid {
        /// The grid.
        degrees: Degrees,
        /// How it fails there.
        source: TrainingError,
    },
    /// It computes other numbers on some grids.
    #[error("{0}")]
    Differs(Box<Report>),
}

/// Why a training has no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainingError {
    /// A rank failed.
    #[error(transparent)]
    Rank(Box<Failure<train::Error>>),
    /// The ranks disagree.
    #[error(transparent)]
    Ranks(#[from] Disagreement),
}

impl From<Failure<train::Error>> for TrainingError {
    fn from(failure: Failure<train::Error>) -> TrainingError {
        TrainingError::Rank(Box::new(failure))
    }
}

/// How the ranks of one training disagree.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Disagreement {
    /// There is no rank.
    #[error("outcome: no rank, needs at least 1")]
    NoRank,
    /// A rank reports other losses or norms than rank 0.
    #[error("rank {rank} reports losses or norms that differ from rank 0")]
    Curves {
        /// The rank.
        rank: usize,
    },
    /// Two replicas of a parameter, or of its gradient, hold different numbers.
    #[error("{name}: replicas differ, {one} and {other}")]
    Replicas {
        /// The parameter.
        name: String,
        /// The number of one replica.
        one: f64,
        /// The number of the other, at the same place.
        other: f64,
    },
}

impl From<Error> for train::Error {
    fn from(error: Error) -> train::Error {
        train::Error::Client(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bootstrap::FailureKind;
    use std::error::Error as _;

    #[test]
    fn a_failure_keeps_its_rank_and_the_sentence_of_it() {
        let failure = Failure {
            rank: 3,
            kind: FailureKind::Error(hal::Error::invalid("model", "1 row", "2").into()),
            others: Box::default(),
        };
        let error = Error::Grid {
            degrees: Degrees::default().with(grid::Axis::X, 4),
            source: failure.into(),
        };
        assert_eq!(
            error.to_string(),
            "grid x=4,y=1,z=1,data=1,pipeline=1: rank 3 failed: model: 1 row, needs 2"
        );
        assert!(matches!(
            error,
            Error::Grid {
                source: TrainingError::Rank(_),
                ..
            }
        ));
    }

    #[test]
    fn ranks_that_disagree_are_the_source_of_the_error() {
        let error = Error::Serial(Disagreement::Curves { rank: 1 }.into());
        let source = error.source().map(|source| source.to_string());
        let reason = "rank 1 reports losses or norms that differ from rank 0";
        assert_eq!(source.as_deref(), Some(reason));
        assert_eq!(error.to_string(), format!("on one rank: {reason}"));
    }
}
