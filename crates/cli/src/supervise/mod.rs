//! Restarts a run when its command fails, on the hosts that are left.
//!
//! Read in this order: `hosts` (lists of them), `line` (the command, and what is filled in), `child` (one start of it), `blame`
//! (the host that its report names), `policy` (what follows from its end, without processes or clocks), `journal`,
//! `roster` (which hosts are left), and [`Supervisor`], which brings them together.
//!
//! A run resumes from its newest checkpoint, on any number of ranks that the model allows, and the order of its data does not
//! depend on that number. So every sample is used exactly once, and what is lost is the work since that checkpoint.

mod blame;
mod child;
pub(crate) mod hosts;
mod journal;
mod line;
mod policy;
mod roster;
mod slow;
mod supervisor;

pub(crate) use child::end_all;
pub(crate) use line::Line;
pub(crate) use roster::HostList;
pub(crate) use supervisor::{Limits, Run, Size, Supervisor};
