//! Channels: one per sender, receiver and direction. Messages carry no labels, so both ends must agree on their
//! order.

use super::{Action, Pass, Result, Schedule, ScheduleError, action::Role, shape::Shape};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The path of one kind of message between two neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Channel {
    /// The sending stage.
    pub from: usize,
    /// The receiving stage.
    pub to: usize,
    /// Forward for activations, backward for gradients.
    pub pass: Pass,
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}s from stage {} to stage {}",
            self.pass.payload(),
            self.from,
            self.to
        )
    }
}

/// Compares both ends of every channel of a schedule that has all its messages.
pub(super) fn check_channels(schedule: &Schedule, shape: Shape) -> Result<()> {
    for pass in [Pass::Forward, Pass::Backward] {
        for (from, to) in shape.neighbours(pass) {
            check_channel(schedule, shape, Channel { from, to, pass })?;
        }
    }
    Ok(())
}

fn check_channel(schedule: &Schedule, shape: Shape, channel: Channel) -> Result<()> {
    let Channel { from, to, pass } = channel;
    let sends = messages(&schedule.stages[from], pass, Role::Send(to));
    let receives = messages(&schedule.stages[to], pass, Role::Receive(from));
    for (position, (sent, received)) in sends.zip(receives).enumerate() {
        if shape.counterpart(from, sent) != Some((to, received)) {
            return Err(ScheduleError::ChannelOrder {
                channel,
                position,
                sent,
                received,
            });
        }
    }
    Ok(())
}

fn messages(list: &[Action], pass: Pass, role: Role) -> impl Iterator<Item = Action> {
    list.iter()
        .copied()
        .filter(move |action| action.pass() == pass && action.role() == role)
}
