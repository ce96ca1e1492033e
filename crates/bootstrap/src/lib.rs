//! How ranks find each other, and what each rank knows about the job.
//!
//! This crate is for programs that start ranks in a way of their own. Others call `fascicle::launch`, of the crate `fascicle`,
//! and never name a world; [From a laptop to a
//! cluster](https://github.com/fascicle-rs/fascicle/blob/main/docs/from-a-laptop-to-a-cluster.md) in the manual of
//! [Fascicle](https://github.com/fascicle-rs/fascicle) begins there.
//!
//! A rank sees a [`World`]: its place, the number of ranks, byte exchanges on the host, the signal that ends
//! the job, and the timeout of its waits. Code above does not depend on the launcher. [`local`] runs the ranks
//! as threads of this process, and implementations of [`Processes`] (MPI) find ranks that were started as
//! processes. A program without such a launcher calls [`refuse_if_launched_many`], which keeps N started
//! processes from running N separate trainings.
//!
//! Read in this order: [`world`], [`progress`], [`failure`], [`local`], [`processes`], [`surroundings`].
//!
//! Three ranks as threads:
//!
//! ```
//! use fascicle_bootstrap::local::{self, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let gathered = local::run(Options::new(3), |world| {
//!     let all = world.everyone().all_gather(&[world.rank() as u8])?;
//!     Ok::<_, hal::Error>(all.concat())
//! })?;
//! assert_eq!(gathered, [[0, 1, 2], [0, 1, 2], [0, 1, 2]]);
//! # Ok(())
//! # }
//! ```

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
