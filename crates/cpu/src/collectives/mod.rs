//! Collectives between ranks that are threads of one process, directly through their shared memory.
//!
//! No rank sends anything. The members of a group publish their buffers, and the last one to arrive compares
//! the calls. Then every member that is awake does pieces of the work, on everybody's buffers, until all of it
//! is done. So a result never depends on which thread computes it, and with more ranks than processors nobody
//! waits for a thread that is not running.
//!
//! Read in this order: [`call`] (the work of a call), [`round`] (one collective), [`group`] (its members and
//! all active rounds), [`member`] (one rank's part in a call), [`registry`] (how members find their group),
//! [`communicator`]; then one file for each collective, over [`mod@reduce`] and [`transfer`]. Ranks that are
//! processes share no memory, so a launcher's transport carries their collectives ([`transported`]).

mod all_gather;
mod all_reduce;
mod all_to_all;
mod broadcast;
mod call;
mod communicator;
mod group;
mod member;
mod message;
mod reduce;
mod reduce_scatter;
mod registry;
mod round;
mod transfer;
mod transported;

pub use reduce::reduce;
pub(crate) use registry::{create_group, join};
pub(crate) use transported::join_over;
