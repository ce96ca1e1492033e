//! Starts the ranks of a job, each with a device of its own.
//!
//! A [`Job`] says how many ranks, on which grid, with how many threads and on whose devices; running it calls a closure once
//! for each rank. The program, the library's [`launch`](Job::run) and the tests all start their ranks here. `gathered` sends
//! what ranks returned to all processes.

#![forbid(unsafe_code)]

mod gathered;
mod job;

pub use job::Job;
