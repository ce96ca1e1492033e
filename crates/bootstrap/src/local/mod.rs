//! Ranks as threads of this process, for laptops, tests, and hosts with several devices.
//!
//! A world may have more ranks than run: with [`StandIns`], a few live ranks stand for all others.
//!
//! Read in this order: [`options`](Options), [`stand_ins`](StandIns), `run` (starts the ranks and collects
//! their results), `rank` (one rank's thread), `judge` (which rank failed first), `panics` (messages of
//! panics), `board` (which ranks meet), `channel` (the rounds of one exchange), `exchange` (one rank's end of
//! it).

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
