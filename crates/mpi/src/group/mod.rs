//! Collectives between the hosts' memories of a group.
//!
//! Read in this order: `transport` (groups and their communicators), `member` (one rank's end: the order of calls),
//! `wire` (messages under way), `call` (collectives that progress together); then `messages` (what only moves),
//! `tree` (broadcast) and `reduction` (what adds).

mod call;
mod member;
mod messages;
mod reduction;
mod staging;
mod transport;
mod tree;
mod wire;

pub(crate) use transport::HostTransport;
