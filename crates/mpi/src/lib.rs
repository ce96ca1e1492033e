//! Ranks as processes under mpirun or srun: bootstrap, and collectives between host memories.
//!
//! A program gets it from the crate `fascicle` with the feature `mpi`. Begin with [From a laptop to a
//! cluster](https://github.com/fascicle-rs/fascicle/blob/main/docs/from-a-laptop-to-a-cluster.md) in the manual of
//! [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! With the feature `link`, this crate provides what a launcher of processes needs: `processes` returns the
//! [`bootstrap::Processes`] of this program. Without it the crate is empty, and nothing needs an MPI library.
//!
//! MPI only moves messages and creates communicators. Every wait is a loop of ours, which also watches the
//! clock and the abort signal. Every reduction is the CPU vendor's, in the order of ranks, so processes give
//! the same bits as threads.
//!
//! Where the library lets a job outlive its processes, those that are left form another: their messages are revoked, so that MPI lets
//! go of memory, their ranks return, and [`bootstrap::Processes::reform`] makes a job with a communicator, a post office and a monitor of its
//! own. Nothing of the old one is used again.
//!
//! Read in this order: `raw` (MPI's calls, with results), `gate` (which threads may call), `limit` (the longest
//! message), `start` (the time in which all must join), `introduction`, `job` and `employment` (this process's part in the job),
//! `post` and `exchange` (bytes between hosts), `notice` and `monitor` (how all processes learn of a failure), `succession` (the
//! job of those that are left), `wait` (timeouts), `group` (collectives), `cores` (binding), `launcher` (the program's view).

#[cfg(feature = "link")]
mod cores;
#[cfg(feature = "link")]
mod employment;
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
mod start;
#[cfg(feature = "link")]
mod succession;
#[cfg(feature = "link")]
mod wait;

#[cfg(feature = "link")]
pub use launcher::processes;
