//! The side that clients see: a thread that speaks HTTP.
//!
//! Read in this order: `keys`, `places` (how many sequences may wait), `routes` (what is at which address), `body`,
//! `answers` (a job until its last token), `connection` (connections, and clients that are too slow), `front` (the thread).

mod answers;
mod body;
mod connection;
mod front;
mod keys;
mod places;
mod routes;

pub use front::Front;
pub use keys::Keys;
