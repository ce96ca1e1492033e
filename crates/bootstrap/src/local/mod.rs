//! Ranks as threads of this process: for laptops, tests, and machines with several devices in one host.
//!
//! A world may be larger than what runs: with [`StandIns`] a few live ranks stand for all others.
//!
//! Read in this order: [`options`](Options), [`stand_ins`](StandIns), `run` (starts the ranks and gathers their ends), `rank` (one rank's
//! thread), `judge` (who failed first), `panics` (what a panic said), `board` (who meets whom), `channel` (the rounds of
//! one exchange), `exchange` (one rank's end of it).

mod board;
mod channel;
mod exchange;
mod judge;
mod options;
pub(crate) mod panics;
mod rank;
mod run;
mod stand_ins;

pub use options::Options;
pub use run::run;
pub use stand_ins::StandIns;
