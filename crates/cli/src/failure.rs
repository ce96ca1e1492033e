//! How a command ends when it does not succeed.

use crate::output;
use std::fmt;

/// Result of a command or a part of it.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Why a command did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The user asked for something invalid; one sentence.
    Usage(String),
    /// The work failed: one sentence, and perhaps lines with details.
    Run(String),
    /// A run was asked to end early, and has saved its checkpoint.
    Stopped,
    /// The reader of the results closed the pipe and wants no more of them.
    PipeClosed,
}

impl Failure {
    /// Exit status of failed work.
    pub(crate) const FAILED: u8 = 1;
    /// Exit status of wrong use.
    pub(crate) const WRONG_USE: u8 = 2;
    /// Exit status of a run that was asked to end early: it can be resumed.
    pub(crate) const STOPPED: u8 = 3;

    /// A wrong use, in one sentence.
    pub(crate) fn usage(error: impl fmt::Display) -> Failure {
        Failure::Usage(error.to_string())
    }

    /// Failed work, in one sentence.
    pub(crate) fn run(error: impl fmt::Display) -> Failure {
        Failure::Run(error.to_string())
    }

    /// The exit status.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Failure::Usage(_) => Failure::WRONG_USE,
            Failure::Run(_) => Failure::FAILED,
            Failure::Stopped => Failure::STOPPED,
            Failure::PipeClosed => 0,
        }
    }

    /// The text to print, if any.
    pub(crate) fn sentence(&self) -> Option<&str> {
        match self {
            Failure::Usage(sentence) | Failure::Run(sentence) => Some(sentence),
            Failure::Stopped | Failure::PipeClosed => None,
        }
    }

    /// Tells the user.
    pub(crate) fn say(&self) {
        if let Some(sentence) = self.sentence() {
            output::note(&format!("fascicle: {sentence}"));
        }
    }
}

// Errors that occur before any rank runs.
impl From<train::Error> for Failure {
    fn from(error: train::Error) -> Failure {
        if error.is_usage() {
            Failure::usage(error)
        } else {
            Failure::run(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_tell_wrong_use_from_failed_work() {
        let wrong = train::Error::setting("training.steps", 0, "at least 1");
        assert_eq!(Failure::from(wrong).status(), 2);
        let missing = train::data::Error::Missing {
            path: "gone".into(),
        };
        assert_eq!(Failure::from(train::Error::Data(missing)).status(), 1);
        let lost = hal::Error::Aborted {
            rank: 1,
            reason: "lost".into(),
        };
        assert_eq!(Failure::from(train::Error::Parallel(lost)).status(), 1);
        assert_eq!(Failure::PipeClosed.status(), 0);
    }
}
