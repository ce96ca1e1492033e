//! The versions of the weights that a stage holds, which take turns.

use super::part::Program;
use crate::data::ParameterSet;
use std::cell::Cell;
use tensor::{Error, Result};

/// A version of the weights, with the model that computes with it.
pub(super) struct Version {
    pub(super) parameters: ParameterSet,
    pub(super) program: Program,
}

/// A ring of versions: each holds the weights of one update after the one before it.
///
/// A round of micro-batches takes the version behind those that earlier rounds have taken. Its update overwrites that version, which
/// nothing reads any more, with the successor of the latest one.
pub(super) struct Versions {
    all: Vec<Version>,
    // The index of the one with the latest weights.
    latest: Cell<usize>,
    // How many of those behind it rounds have taken.
    num_taken: Cell<usize>,
}

impl Versions {
    /// A ring of these, which all hold the same weights.
    ///
    /// # Errors
    /// As [`ParameterSet::take_turns`].
    pub(super) fn new(all: Vec<Version>) -> Result<Versions> {
        if all.len() > 1 {
            let sets = all.iter().map(|version| version.parameters.clone());
            ParameterSet::take_turns(&sets.collect::<Vec<_>>())?;
        }
        Ok(Versions {
            latest: Cell::new(all.len() - 1),
            num_taken: Cell::new(0),
            all,
        })
    }

    /// The one with the latest weights.
    pub(super) fn latest(&self) -> &Version {
        self.after_latest(0)
    }

    /// The one that the next round takes, if none is running.
    pub(super) fn next(&self) -> &Version {
        self.after_latest(1)
    }

    /// The version for a round, and its index.
    ///
    /// # Errors
    /// [`Error::Invalid`] if rounds have taken all.
    pub(super) fn take(&self) -> Result<(usize, &Version)> {
        let (taken, count) = (self.num_taken.get(), self.all.len());
        if taken >= count {
            let found = format!("{taken} of {count} versions of the weights in use");
            return Err(Error::invalid("forward", found, "a schedule that checks"));
        }
        self.num_taken.set(taken + 1);
        let index = (self.latest.get() + 1 + taken) % count;
        Ok((index, &self.all[index]))
    }

    /// The earliest round that has taken a version has run its last backward: the version becomes the latest one, which the update
    /// changes.
    ///
    /// # Errors
    /// As [`ParameterSet::catch_up`].
    pub(super) fn give_back(&self, index: usize) -> Result<()> {
        if self.all.len() > 1 {
            self.all[index].parameters.catch_up()?;
        }
        self.latest.set(index);
        self.num_taken.set(self.num_taken.get().saturating_sub(1));
        Ok(())
    }

    /// Gives up the rounds that have taken versions.
    pub(super) fn forget_rounds(&self) {
        self.num_taken.set(0);
    }

    /// Sets all versions to the latest one.
    ///
    /// # Errors
    /// As [`ParameterSet::catch_up`].
    pub(super) fn equal(&self) -> Result<()> {
        let mut others = 1..self.all.len();
        others.try_for_each(|later| self.after_latest(later).parameters.catch_up())
    }

    fn after_latest(&self, later: usize) -> &Version {
        &self.all[(self.latest.get() + later) % self.all.len()]
    }
}
