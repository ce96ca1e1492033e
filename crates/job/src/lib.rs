//! Starts the ranks of a job, each with its own device.
//!
//! A [`Job`] holds the number of ranks, their grid, their threads and their devices. Running it calls a closure
//! once per rank. The program, the library's [`launch`](Job::run) and the tests all start their ranks here.
//! `gathered` sends the results of ranks to all processes.

#![forbid(unsafe_code)]

mod gathered;
mod job;

pub use job::Job;
