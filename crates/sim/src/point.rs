//! A time on a stream that may still be unknown, and what it waits for.

use crate::{pending::Pending, work::Reason};
use std::sync::Arc;

/// The activity of a stream before a point in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cause {
    /// What occupied it.
    pub(crate) what: Reason,
    /// Since when.
    pub(crate) since: f64,
    /// What occupied it, or what it waited for, before that.
    pub(crate) before: Reason,
}

/// A point in a stream: the end of its last work, of the events it waits for, and of receives whose time is
/// unknown.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    /// The latest known end.
    pub(crate) at: f64,
    /// What ended then.
    pub(crate) cause: Cause,
    /// Work of unknown time that also ends before the point.
    pub(crate) pending: Vec<Arc<Pending>>,
}

impl Point {
    /// The start of virtual time.
    pub(crate) fn origin() -> Point {
        let cause = Cause {
            what: Reason::Host,
            since: 0.0,
            before: Reason::Host,
        };
        Point {
            at: 0.0,
            cause,
            pending: Vec::new(),
        }
    }

    /// The later of this point and another.
    pub(crate) fn merge(&mut self, other: &Point) {
        self.reach(other.at, other.cause);
        for pending in &other.pending {
            if !self.pending.iter().any(|own| Arc::ptr_eq(own, pending)) {
                self.pending.push(pending.clone());
            }
        }
    }

    /// The later of this point and something that ends at `at`.
    pub(crate) fn reach(&mut self, at: f64, cause: Cause) {
        if at > self.at {
            (self.at, self.cause) = (at, cause);
        }
    }
}
