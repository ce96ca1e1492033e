//! The simulated vendor: buffers without memory, streams with a virtual clock, costs from a machine description.
//!
//! A program that runs on this vendor does everything it does on another one, except that no number is computed: an
//! allocation counts bytes, a launch moves its stream's clock on by what the work costs on the machine described, an
//! event is a time, and a collective takes what the links of that machine give to that group. So the program itself
//! says how long it would take.
//!
//! # How time passes
//! - The host's clock moves on with each launch; work starts when its stream is free and the host has launched it.
//! - Ranks that are not live (see [`Options::live`]) do at every moment what their live stand-in does, so a collective
//!   with them only completes alone. Between live ranks, which are threads, messages and collectives carry times: the
//!   receiver learns when the sender was ready. A thread waits for another only where it needs such a time, which is
//!   at the first work behind the receipt; all times are then the same whatever the threads' real speed.
//! - Links are shared by intervals, in the order of issue: a transfer progresses while its links are not taken by
//!   transfers that were issued before it, and fills the gaps that they leave. Compute beside a transfer is slowed.
//!
//! Read in this order: `timeline` and `links` (sharing), `point` and `pending` (times, and what they wait for), `state` (a device's
//! clocks), `stream`, `kernels`, `group` (ranks that meet), `recorder` (what came out).

mod breakdown;
pub mod cost;
mod device;
mod event;
mod group;
mod kernels;
mod links;
mod memory;
mod pending;
mod point;
mod recorder;
mod state;
mod stream;
mod timeline;
mod work;

pub use breakdown::{Breakdown, GroupTime};
pub use device::{Options, open, open_recorded};
pub use recorder::Recorder;
pub use work::{Category, Gap, Reason, Work};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The content of a mutex, also after a panic elsewhere: what this vendor locks is consistent whenever it is unlocked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
