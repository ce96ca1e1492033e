//! A plan told to people and to programs.

mod json;
mod text;
mod time;

pub use json::json;
pub use text::text;
pub use time::{Share, shares};
