//! Starts the ranks of a job, each with its own device.
//!
//! This crate is for programs that choose vendors and launchers themselves. In the crate `fascicle`, `fascicle::job()` is a job
//! with every vendor of the build. Begin with [Your first
//! model](https://github.com/fascicle-rs/fascicle/blob/main/docs/first-model.md) in the manual of
//! [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! A [`Job`] holds the number of ranks, their grid, their threads and their devices. Running it calls a closure
//! once per rank. The program, the library's [`launch`](Job::run) and the tests all start their ranks here.
//! `gathered` sends the results of ranks to all processes.
//!
//! Four ranks, each of which knows its place:
//!
//! ```
//! use fascicle_job::Job;
//! use grid::Axis;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let places = Job::new([cpu::driver()]).grid("x=2,pipeline=2")?.run(|context| {
//!     Ok::<_, hal::Error>((context.index(Axis::X), context.index(Axis::Pipeline)))
//! })?;
//! assert_eq!(places, [(0, 0), (1, 0), (0, 1), (1, 1)]);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod gathered;
mod job;

pub use job::Job;
