//! A server over real sockets, on threads: clients get the tokens of the generator, and cannot harm it.

mod answers;
mod client;
mod limits;
mod malformed;
mod server;
mod sharing;
mod stopping;
