//! Reports of a plan, for people and for programs.

mod json;
mod notes;
mod text;
mod time;

pub use json::json;
pub use notes::notes;
pub use text::text;
pub use time::{Share, shares};
