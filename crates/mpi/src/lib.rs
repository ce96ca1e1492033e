//! Ranks as processes under mpirun or srun: bootstrap, and collectives between hosts' memories.
//!
//! With the feature `link` this crate holds what a launcher of processes has to: `processes` gives the
//! [`bootstrap::Processes`] of this program. Without it the crate is empty, and nothing needs an MPI library.
//!
//! MPI moves messages and makes communicators, and nothing else: every wait is a loop of ours, which also watches the
//! clock and the abort signal, and every reduction is the CPU vendor's, in the order of ranks, so that processes give
//! the bits that threads give.
//!
//! Read in this order: `raw` (MPI's calls, with results), `gate` (who may call), `limit` (the longest message),
//! `introduction` and `job` (this process's part in the job), `post` and `exchange` (bytes between hosts), `notice` and
//! `monitor` (how a failure becomes known to all), `wait` (patience), `group` (collectives), `cores` (binding),
//! `launcher` (what the program sees).

#[cfg(feature = "link")]
mod cores;
#[cfg(feature = "link")]
mod exchange;
#[cfg(feature = "link")]
mod gate;
#[cfg(feature = "link")]
mod group;
#[cfg(feature = "link")]
mod introduction;
#[cfg(feature = "link")]
mod job;
#[cfg(feature = "link")]
mod launcher;
#[cfg(feature = "link")]
mod limit;
#[cfg(feature = "link")]
mod monitor;
#[cfg(feature = "link")]
mod notice;
#[cfg(feature = "link")]
mod post;
#[cfg(feature = "link")]
mod raw;
#[cfg(feature = "link")]
mod wait;

#[cfg(feature = "link")]
pub use launcher::processes;
