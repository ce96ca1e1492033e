//! What each segment does with what it keeps, chosen for the least time within a capacity.
//!
//! Read in this order: `costs` (what each choice of a segment takes and frees, in closed form), `frontier` (the fastest choices of
//! a stage for every number of bytes), [`choose`](mod@choose) (the simulator as the judge of those that fit), `words` (choices in words),
//! [`settle`](mod@settle) (`training.memory = "auto"` of a configuration).

pub mod choose;
mod costs;
mod frontier;
pub mod settle;
mod words;

pub(crate) use choose::places;
pub use choose::{MemoryChoice, Tried, choose};
pub(crate) use costs::{Links, of_stages};
pub(crate) use frontier::waits;
pub use settle::settle;
pub use words::in_words;
