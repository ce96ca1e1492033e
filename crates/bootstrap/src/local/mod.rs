//! Ranks as threads of this process: for laptops, tests, and machines with several devices in one host.
//!
//! Read in this order: [`options`](Options), `run` (starts the ranks and gathers their ends), `rank` (one rank's
//! thread), `judge` (who failed first), `panics` (what a panic said), `board` (who meets whom), `channel` (the rounds of
//! one exchange), `exchange` (one rank's end of it).

mod board;
mod channel;
mod exchange;
mod judge;
mod options;
mod panics;
mod rank;
mod run;

pub use options::Options;
pub use run::run;
