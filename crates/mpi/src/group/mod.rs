//! Collectives between the host memories of a group.
//!
//! Read in this order: `transport` (groups and their communicators), `member` (one rank's end: the order of
//! calls), `wire` (messages in flight), `call` (collectives that progress together); then `messages`
//! (operations that only move data), `tree` (broadcast) and `reduction` (operations that add);
//! `progress` says which operations of a call are in progress.

mod call;
mod member;
mod messages;
mod progress;
mod reduction;
mod staging;
mod transport;
mod tree;
mod wire;

pub(crate) use transport::HostTransport;
