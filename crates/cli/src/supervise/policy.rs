//! What follows from the end of a start: the decision alone, without processes or clocks.

use super::child::Ended;
use crate::failure::Failure;
use std::time::Duration;

/// What a supervisor does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The run is complete.
    Done,
    /// The run was asked to stop, and has saved its checkpoint.
    Stopped,
    /// Starting again would not help, or has not helped.
    GiveUp(String),
    /// Start again after a pause, without this host if there is one.
    Again {
        /// The time before that.
        pause: Duration,
        /// The host to leave out.
        without: Option<String>,
    },
}

/// Why the supervisor asked a start to end, if it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// It did not.
    No,
    /// The supervisor itself is to stop.
    ToStop,
    /// The hosts have changed.
    ToMove,
}

/// What a start has brought the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gained {
    /// No newer checkpoint than the start before.
    Nothing,
    /// A newer checkpoint.
    Checkpoint,
    /// The checkpoint of its last step.
    All,
}

/// Counts failures that have brought the run no further.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    most: u32,
    failures: u32,
    suspect: Option<String>,
}

/// The longest pause before another start.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl Policy {
    /// Allows `most` failures in a row without a new checkpoint.
    pub(crate) fn new(most: u32) -> Policy {
        Policy {
            most,
            failures: 0,
            suspect: None,
        }
    }

    /// Decides after a start has ended. `host` is the one that its report names.
    ///
    /// A status of 0 alone shows nothing: that of a launcher may be 0 although it could not start all processes.
    /// A host that two failures in a row name is left out from then on, whatever the run achieved between them.
    pub(crate) fn after(
        &mut self,
        ended: &Ended,
        asked: Asked,
        gained: Gained,
        host: Option<&str>,
    ) -> Next {
        let soon = |without| Next::Again {
            pause: Duration::ZERO,
            without,
        };
        match (ended.status, asked) {
            (Some(0), _) if gained == Gained::All => return Next::Done,
            // A run that fails while it stops has left its last checkpoint all the same.
            (_, Asked::ToStop) => return Next::Stopped,
            (_, Asked::ToMove) => {
                self.failures = 0;
                return soon(None);
            }
            (Some(status), Asked::No) if status == i32::from(Failure::STOPPED) => {
                return Next::Stopped;
            }
            (Some(status), Asked::No) if status == i32::from(Failure::WRONG_USE) => {
                return Next::GiveUp("the command is refused, and would be again".into());
            }
            (_, Asked::No) => {}
        }
        let is_again = host.is_some() && self.suspect.as_deref() == host;
        self.suspect = host.filter(|_| !is_again).map(str::to_owned);
        self.failures = match gained {
            Gained::Nothing => self.failures + 1,
            Gained::Checkpoint | Gained::All => 1,
        };
        if self.failures > self.most {
            let times = self.failures;
            return Next::GiveUp(format!(
                "{times} starts in a row have failed without a new checkpoint; --restarts allows {}",
                self.most
            ));
        }
        let doubled = 1u64 << (self.failures - 1).min(10);
        Next::Again {
            pause: Duration::from_secs(doubled).min(LONGEST_PAUSE),
            without: host.filter(|_| is_again).map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(status: i32) -> Ended {
        Ended {
            status: Some(status),
            signal: None,
            report: Vec::new(),
            result: String::new(),
        }
    }

    fn again(seconds: u64, without: Option<&str>) -> Next {
        Next::Again {
            pause: Duration::from_secs(seconds),
            without: without.map(str::to_owned),
        }
    }

    #[test]
    fn the_status_decides() {
        let with =
            |status, asked, gained| Policy::new(3).after(&ended(status), asked, gained, None);
        let after = |status, asked| with(status, asked, Gained::Nothing);
        assert_eq!(with(0, Asked::No, Gained::All), Next::Done);
        // It finished before it heard.
        assert_eq!(with(0, Asked::ToMove, Gained::All), Next::Done);
        // A launcher that was interrupted while it started the processes.
        assert_eq!(after(0, Asked::ToStop), Next::Stopped);
        assert_eq!(after(0, Asked::ToMove), again(0, None));
        assert_eq!(after(0, Asked::No), again(1, None));
        assert_eq!(after(3, Asked::No), Next::Stopped);
        assert_eq!(after(3, Asked::ToStop), Next::Stopped);
        assert_eq!(after(3, Asked::ToMove), again(0, None));
        assert_eq!(after(1, Asked::ToMove), again(0, None));
        assert_eq!(after(1, Asked::No), again(1, None));
        assert!(matches!(after(2, Asked::No), Next::GiveUp(_)));
    }

    #[test]
    fn failures_without_a_checkpoint_are_counted_and_pauses_grow() {
        let mut policy = Policy::new(3);
        let nothing = Gained::Nothing;
        let mut fail = |gained| policy.after(&ended(1), Asked::No, gained, None);
        assert_eq!(
            [fail(nothing), fail(nothing)],
            [again(1, None), again(2, None)]
        );
        assert_eq!(fail(Gained::Checkpoint), again(1, None));
        assert_eq!(
            [fail(nothing), fail(nothing)],
            [again(2, None), again(4, None)]
        );
        assert!(matches!(fail(nothing), Next::GiveUp(why) if why.starts_with("4 starts in a row")));
        let mut patient = Policy::new(100);
        let pauses = (0..20).map(|_| patient.after(&ended(1), Asked::No, nothing, None));
        assert_eq!(pauses.last(), Some(again(60, None)));
        assert!(matches!(
            Policy::new(0).after(&ended(1), Asked::No, Gained::Checkpoint, None),
            Next::GiveUp(_)
        ));
    }

    #[test]
    fn a_host_that_is_named_twice_in_a_row_is_left_out() {
        let mut policy = Policy::new(9);
        let mut named = |host| match policy.after(&ended(1), Asked::No, Gained::Checkpoint, host) {
            Next::Again { without, .. } => without,
            other => panic!("{other:?}"),
        };
        assert_eq!(named(Some("a")), None);
        assert_eq!(named(Some("b")), None);
        assert_eq!(named(Some("a")), None);
        assert_eq!(named(Some("a")), Some("a".into()));
        assert_eq!(named(None), None);
        assert_eq!(named(None), None);
    }
}
