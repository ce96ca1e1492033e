//! One rank's end of a group.

use super::{
    hub::{Hub, MessageKey, Sent},
    meeting::{Meeting, Patience, QueuedReceive, Round},
    registry,
};
use crate::{
    kernels,
    pending::Task,
    state::{Cost, Shared, SimState},
    stream::SimStream,
    work::{Category, Label},
};
use grid::machine::{Cost as Transfer, Route};
use hal::{Collective, Communicator, GroupId, Join, RawSlice, Result, Stream};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex},
};

/// A communicator of this vendor.
pub(super) struct SimCommunicator {
    shared: Arc<Shared>,
    id: GroupId,
    rank: usize,
    size: usize,
    // Index of the group's label in the device's breakdown.
    label: u16,
    route: Route,
    // `None` if no other member is live: members that are not live behave like this rank.
    hub: Option<Arc<Hub>>,
    patience: Patience,
    // Number of messages so far, by sender and receiver.
    messages: RefCell<HashMap<(usize, usize), u64>>,
    rounds: Cell<u64>,
}

impl SimCommunicator {
    pub(super) fn new(
        shared: Arc<Shared>,
        join: &Join,
        route: Route,
        hub: Option<Arc<Hub>>,
        patience: Patience,
    ) -> SimCommunicator {
        let label = shared.lock().group(&join.label);
        let (id, rank, size) = (join.id.clone(), join.rank, join.members.len());
        let (messages, rounds) = (RefCell::default(), Cell::new(0));
        SimCommunicator {
            shared,
            id,
            rank,
            size,
            label,
            route,
            hub,
            patience,
            messages,
            rounds,
        }
    }

    fn label(&self, calls: &[Collective]) -> Label {
        let (name, category) = match calls.first() {
            Some(call @ (Collective::Send { .. } | Collective::Recv { .. })) => {
                (call.name(), Category::Message)
            }
            Some(call) => (call.name(), Category::Collective),
            None => ("nothing", Category::Collective),
        };
        let bytes = calls
            .iter()
            .filter_map(Collective::buffer)
            .map(|buffer| buffer.bytes())
            .sum();
        Label {
            name,
            category,
            group: Some(self.label),
            bytes,
            flop: 0.0,
        }
    }

    fn cost(&self, calls: &[Collective]) -> Transfer {
        self.shared.costs.collectives(self.route, calls)
    }

    // The cost of collectives in which all members take part.
    fn meeting_cost(&self, state: &mut SimState, calls: &[Collective]) -> Transfer {
        let is_message =
            |call: &Collective| matches!(call, Collective::Send { .. } | Collective::Recv { .. });
        match calls.iter().all(is_message) {
            true => self.cost(calls),
            false => self
                .shared
                .costs
                .meeting(self.route, calls, state.compute_since_collective()),
        }
    }

    // Runs calls that involve other live ranks: first the messages that leave this rank, then the work that
    // depends on the others.
    fn run_with(
        &self,
        hub: &Arc<Hub>,
        state: &mut SimState,
        lane: usize,
        calls: &[Collective],
    ) -> Result<()> {
        let is_receive = |call: &&Collective| matches!(call, Collective::Recv { from, .. } if hub.is_live(*from));
        let is_alone = |call: &&Collective| match call {
            Collective::Send { .. } => true,
            Collective::Recv { from, .. } => !hub.is_live(*from),
            _ => false,
        };
        let of = |kind: &dyn Fn(&&Collective) -> bool| {
            calls.iter().filter(kind).cloned().collect::<Vec<_>>()
        };
        let (alone, receives) = (of(&is_alone), of(&is_receive));
        let together = of(&|call| !is_alone(call) && !is_receive(call));
        if !alone.is_empty() {
            self.send(hub, state, lane, &alone)?;
        }
        if !receives.is_empty() || !together.is_empty() {
            self.meet(hub, state, lane, &receives, &together)?;
        }
        state.publish();
        Ok(())
    }

    fn send(
        &self,
        hub: &Hub,
        state: &mut SimState,
        lane: usize,
        calls: &[Collective],
    ) -> Result<()> {
        let (start, end) =
            state.run_now(lane, self.label(calls), &Cost::Transfer(self.cost(calls)))?;
        for call in calls {
            if let Collective::Send {
                buffer: RawSlice { len, dtype, .. },
                to,
            } = *call
            {
                hub.send(
                    self.next_message(self.rank, to),
                    Sent {
                        start,
                        end,
                        len,
                        dtype,
                    },
                );
            }
        }
        Ok(())
    }

    fn meet(
        &self,
        hub: &Arc<Hub>,
        state: &mut SimState,
        lane: usize,
        receives: &[Collective],
        together: &[Collective],
    ) -> Result<()> {
        let label = self.label(if together.is_empty() {
            receives
        } else {
            together
        });
        let meeting = Meeting {
            hub: hub.clone(),
            rank: self.rank,
            patience: self.patience.clone(),
            receives: receives
                .iter()
                .filter_map(|call| self.queued_receive(call))
                .collect(),
            round: (!together.is_empty()).then(|| self.round(state, together)),
        };
        // Where this rank's own time is known, the others receive it at once.
        if !together.is_empty()
            && let Some(ready) = state.next_start(lane)?
        {
            meeting.come(ready);
        }
        state.defer(lane, label, Task::Meeting(meeting));
        Ok(())
    }

    fn round(&self, state: &mut SimState, calls: &[Collective]) -> Round {
        let number = self.rounds.replace(self.rounds.get() + 1);
        let call = calls
            .iter()
            .map(Collective::describe)
            .collect::<Vec<_>>()
            .join(", ");
        let Transfer {
            latency_s,
            transfer_s,
            ..
        } = self.meeting_cost(state, calls);
        Round {
            number,
            call: Mutex::new(Some(call)),
            seconds: latency_s + transfer_s,
        }
    }

    fn queued_receive(&self, call: &Collective) -> Option<QueuedReceive> {
        let Collective::Recv { buffer, from } = *call else {
            return None;
        };
        let cost = self.cost(std::slice::from_ref(call));
        let key = self.next_message(from, self.rank);
        Some(QueuedReceive {
            key,
            buffer,
            seconds: cost.latency_s + cost.transfer_s,
        })
    }

    fn next_message(&self, from: usize, to: usize) -> MessageKey {
        let mut messages = self.messages.borrow_mut();
        let next = messages.entry((from, to)).or_default();
        let number = *next;
        *next += 1;
        MessageKey { from, to, number }
    }
}

// SAFETY: no memory is touched, and rank and size are those of the group joined.
unsafe impl Communicator for SimCommunicator {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    unsafe fn run(&self, stream: &dyn Stream, collectives: &[Collective]) -> Result<()> {
        let lane = SimStream::index(stream, &self.shared)?;
        let mut state = self.shared.lock();
        for call in collectives {
            kernels::check(&state.memory, call.name(), |visit| call.operands(visit))?;
        }
        match &self.hub {
            Some(hub) => self.run_with(hub, &mut state, lane, collectives),
            None => {
                let cost = self.meeting_cost(&mut state, collectives);
                state.run(lane, self.label(collectives), Cost::Transfer(cost))
            }
        }
    }
}

impl fmt::Debug for SimCommunicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = String::from_utf8_lossy(&self.id.0);
        write!(
            f,
            "SimCommunicator({group}, {} of {})",
            self.rank, self.size
        )
    }
}

impl Drop for SimCommunicator {
    fn drop(&mut self) {
        if let Some(hub) = &self.hub {
            registry::leave(&self.id, hub);
        }
    }
}
