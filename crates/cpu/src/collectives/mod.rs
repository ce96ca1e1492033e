//! Collectives between ranks that are threads of one process, straight through their shared memory.
//!
//! No rank sends anything. The members of a group publish their buffers, the last one to come compares the calls, and
//! then whoever is awake does a piece of the work, on everybody's buffers, until all of it is done. So a result never
//! depends on who computes it, and with more ranks than processors nobody waits for a thread that does not run.
//!
//! Read in this order: [`call`] (what a call needs), [`round`] (one collective), [`group`] (its members and all rounds
//! under way), [`member`] (one rank's part in a call), [`registry`] (how members find their group), [`communicator`];
//! then one file for each collective, over [`mod@reduce`] and [`transfer`]. Ranks that are processes share no memory: their
//! collectives are a launcher's transport ([`transported`]).

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
