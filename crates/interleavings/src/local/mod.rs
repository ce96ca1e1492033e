//! The exchanges of a local job's ranks (`bootstrap/src/local`).

mod models;

#[path = "../../../bootstrap/src/local/board.rs"]
mod board;
#[path = "../../../bootstrap/src/local/channel.rs"]
mod channel;
#[path = "../../../bootstrap/src/local/exchange.rs"]
mod exchange;
#[path = "../../../bootstrap/src/local/stand_ins.rs"]
mod stand_ins;

pub use models::*;
