//! Pipeline schedules as data: which stage runs which pass of which micro-batch when, and which messages it
//! exchanges.
//!
//! A schedule is a list of actions for each stage, made by a pure function; it can be printed, timed and
//! checked without running a network. Read in this order: `action`, `stages` (which part of the model lies where), `shape`
//! (actions and neighbours), `program` (the list itself), one file per schedule (`gpipe`, `one_forward_one_backward`,
//! `interleaved`, `zero_bubble`, `message_driven`; `overlapped` with `pipedream` and `pipedream_2bw`), `kind` (the choice by
//! name), then `check` with its parts (`positions`, `channels`, `execute`), `order` (what a host queues when) and `sharing` with `queued` (messages that share streams), `idle`, `text`, and `partition` with `cuts`, which cut the
//! layers into stages. This module does not move data; the engine does.

mod action;
mod channels;
mod check;
mod cuts;
mod error;
mod execute;
mod gpipe;
mod idle;
mod interleaved;
mod kind;
mod message_driven;
mod one_forward_one_backward;
mod order;
mod overlapped;
mod partition;
mod pipedream;
mod pipedream_2bw;
mod positions;
mod program;
mod queued;
mod shape;
mod sharing;
mod simulate;
mod stages;
mod text;
mod times;
mod zero_bubble;

#[cfg(test)]
mod tests;

pub use action::{Action, Pass};
pub use channels::Channel;
pub use check::{Report, check};
pub use error::{Result, ScheduleError};
pub use execute::{Deadlock, Stuck};
pub use gpipe::gpipe;
pub use idle::{Idle, idle};
pub use interleaved::interleaved;
pub use kind::{ScheduleKind, build};
pub use message_driven::{Decision, MessageDriven, Ready};
pub use one_forward_one_backward::one_forward_one_backward;
pub(crate) use order::{evaluation, evaluation_order, receives_until};
pub(crate) use overlapped::STEPS;
pub use overlapped::{Overlapped, StepAction, check_overlapped};
pub use partition::{Profile, ProfiledMemory, ProfiledWire, balance, partition};
pub use pipedream::pipedream;
pub use pipedream_2bw::pipedream_2bw;
pub use program::Schedule;
pub use sharing::Sharing;
pub(crate) use sharing::{Steps, finishes};
pub use simulate::{Hop, Pace, simulate};
pub use stages::{ChunkLocation, Placement, Stages};
pub use times::Times;
pub use zero_bubble::{zb_h1, zb_v};
