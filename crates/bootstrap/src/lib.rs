//! How ranks find each other, and what each rank knows about the job.
//!
//! A rank sees a [`World`]: its place, the number of ranks, byte exchanges on the host, the signal that ends
//! the job, and the timeout of its waits. Code above does not depend on the launcher. [`local`] runs the ranks
//! as threads of this process, and implementations of [`Processes`] (MPI) find ranks that were started as
//! processes. A program without such a launcher calls [`refuse_if_launched_many`], which keeps N started
//! processes from running N separate trainings.
//!
//! Read in this order: [`world`], [`progress`], [`failure`], [`local`], [`processes`], [`surroundings`].

#![forbid(unsafe_code)]

mod alone;
pub mod failure;
pub mod local;
pub mod processes;
pub mod progress;
mod ranks;
pub mod surroundings;
pub mod world;

pub use failure::{Failure, FailureKind, Others};
pub use processes::{Lost, Processes};
pub use progress::LastSeen;
pub use surroundings::{LaunchedMany, Surroundings, detect, refuse_if_launched_many};
pub use world::{Launcher, World};
