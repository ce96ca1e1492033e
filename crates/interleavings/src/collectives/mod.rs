//! The collectives of the CPU's ranks (`cpu/src/collectives`): groups, rounds, members and their table.
//!
//! [`call`] replaces the work itself. The files are otherwise the vendor's own.

mod call;
mod models;

#[path = "../../../cpu/src/collectives/communicator.rs"]
mod communicator;
#[path = "../../../cpu/src/collectives/group.rs"]
mod group;
#[path = "../../../cpu/src/collectives/member.rs"]
mod member;
#[path = "../../../cpu/src/collectives/registry.rs"]
mod registry;
#[path = "../../../cpu/src/collectives/round.rs"]
mod round;

pub use models::*;
