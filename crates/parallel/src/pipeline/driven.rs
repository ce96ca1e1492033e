//! AxoNN's message-driven schedule: a stage acts on whichever message has arrived.
//!
//! The ranks of one stage compute together, so they must act in one order: the first rank watches the messages,
//! and it, or the rank that stands for it, informs the others. Replicas along Data are independent until
//! gradients are reduced.

use super::{
    schedule::{Decision, MessageDriven, Pass, Ready},
    stage::Stage,
};
use grid::Axis;
use hal::{Exchange, Stopwatch};
use std::{sync::Arc, time::Duration};
use tensor::{Error, Event, Result};

// The axes whose ranks exchange activations within a stage.
const TOGETHER: [Axis; 4] = [Axis::X, Axis::Y, Axis::Z, Axis::Context];

// How long the host sleeps between two checks for messages.
const PAUSE: Duration = Duration::from_micros(20);

/// Runs a step of `num_micro_batches`.
pub(super) fn run(stage: &mut Stage<'_>, in_flight: usize) -> Result<()> {
    let num_micro_batches = stage.num_micro_batches();
    let (index, stages) = (
        stage.pipeline.context().index(Axis::Pipeline),
        stage.pipeline.context().degree(Axis::Pipeline),
    );
    let refuse = |error| {
        Error::invalid(
            "message-driven schedule",
            format!("{error}"),
            "counts of at least 1",
        )
    };
    let mut policy =
        MessageDriven::new(index, stages, num_micro_batches, in_flight).map_err(refuse)?;
    let mut inbox = Inbox {
        index,
        stages,
        num_micro_batches,
        ..Inbox::default()
    };
    let peers = stage
        .pipeline
        .context()
        .exchange("stage decisions", &TOGETHER)?;
    inbox.post(stage)?;
    while let Some((pass, micro_batch)) = decide(stage, &mut policy, &inbox, &peers)? {
        match pass {
            Pass::Forward => {
                stage.forward(micro_batch, 0)?;
                inbox.activation = None;
                inbox.unanswered += 1;
                stage.send_activations(micro_batch, 0)?;
            }
            Pass::Backward => {
                stage.backward(micro_batch, 0)?;
                inbox.gradient = None;
                inbox.unanswered -= 1;
                stage.send_gradients(micro_batch, 0)?;
            }
        }
        inbox.post(stage)?;
    }
    Ok(())
}

// The next receives of each direction, queued before they are needed.
#[derive(Default)]
struct Inbox {
    index: usize,
    stages: usize,
    num_micro_batches: usize,
    num_activations: usize,
    num_gradients: usize,
    // Micro-batches that have run forward and not yet backward. The policy counts them on the rank alone that decides.
    unanswered: usize,
    activation: Option<Vec<Event>>,
    gradient: Option<Vec<Event>>,
}

impl Inbox {
    fn post(&mut self, stage: &mut Stage<'_>) -> Result<()> {
        if self.index > 0
            && self.activation.is_none()
            && self.num_activations < self.num_micro_batches
            && self.may_receive_activation(stage)
        {
            self.activation = Some(stage.recv_activations(self.num_activations, 0)?);
            self.num_activations += 1;
        }
        if self.index + 1 < self.stages
            && self.gradient.is_none()
            && self.num_gradients < self.num_micro_batches
            && stage.knows_outputs(self.num_gradients, 0)
        {
            self.gradient = Some(stage.recv_gradients(self.num_gradients, 0)?);
            self.num_gradients += 1;
        }
        Ok(())
    }

    // To learn what will arrive the host waits for the sender, which may itself wait for this stage's gradients: so not before they
    // have been sent.
    fn may_receive_activation(&self, stage: &Stage<'_>) -> bool {
        self.unanswered == 0 || stage.knows_inputs(self.num_activations, 0)
    }

    fn ready(&self) -> Result<Ready> {
        let arrived = |events: &Option<Vec<Event>>| match events {
            Some(events) => events
                .iter()
                .try_fold(true, |all, event| Ok(all && event.is_complete()?)),
            None => Ok(false),
        };
        Ok(Ready {
            activation: arrived(&self.activation)?,
            gradient: arrived(&self.gradient)?,
        })
    }
}

// The first rank of the stage decides, and the others receive its decision.
fn decide(
    stage: &Stage<'_>,
    policy: &mut MessageDriven,
    inbox: &Inbox,
    peers: &Arc<dyn Exchange>,
) -> Result<Option<(Pass, usize)>> {
    if peers.stands_for(0) {
        let decision = watch(stage, policy, inbox)?;
        if peers.size() > 1 {
            peers.broadcast(0, &encode(decision))?;
        }
        return Ok(decision);
    }
    decode(&peers.broadcast(0, &[])?)
}

fn watch(
    stage: &Stage<'_>,
    policy: &mut MessageDriven,
    inbox: &Inbox,
) -> Result<Option<(Pass, usize)>> {
    let world = stage.pipeline.context().world();
    let start = Stopwatch::start();
    loop {
        match policy.next(inbox.ready()?) {
            Decision::Run(pass, micro_batch) => return Ok(Some((pass, micro_batch))),
            Decision::Done => return Ok(None),
            Decision::Wait => hal::sync::thread::sleep(PAUSE),
        }
        world.abort().check()?;
        if start.elapsed() > world.timeout() {
            return Err(late(stage, inbox, start.elapsed()));
        }
    }
}

// The neighbours that this stage expects a message from, in the words of any other wait.
fn late(stage: &Stage<'_>, inbox: &Inbox, waited: Duration) -> Error {
    let context = stage.pipeline.context();
    let is_open = |events: &Option<Vec<Event>>| {
        let mut events = events.iter().flatten();
        events.any(|event| !event.is_complete().unwrap_or(false))
    };
    let neighbours = [
        (is_open(&inbox.activation), inbox.index.wrapping_sub(1)),
        (is_open(&inbox.gradient), inbox.index + 1),
    ];
    let members = context.members(&[Axis::Pipeline]);
    let missing = neighbours.into_iter().filter(|(open, _)| *open);
    Error::Timeout {
        group: "axis pipeline".into(),
        rank: context.world().rank(),
        operation: "receive of the message-driven schedule".into(),
        sequence: (inbox.num_activations + inbox.num_gradients) as u64,
        missing: missing
            .filter_map(|(_, stage)| members.get(stage).copied())
            .collect(),
        waited,
    }
}

fn encode(decision: Option<(Pass, usize)>) -> Vec<u8> {
    let Some((pass, micro_batch)) = decision else {
        return Vec::new();
    };
    let mut bytes = vec![u8::from(pass == Pass::Backward)];
    bytes.extend((micro_batch as u64).to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Result<Option<(Pass, usize)>> {
    let Some((&backward, rest)) = bytes.split_first() else {
        return Ok(None);
    };
    let micro_batch = rest.try_into().map(u64::from_le_bytes).map_err(|_| {
        Error::invalid(
            "message-driven schedule",
            format!("a decision of {} bytes", bytes.len()),
            "9 or none",
        )
    })?;
    Ok(Some((
        if backward == 1 {
            Pass::Backward
        } else {
            Pass::Forward
        },
        micro_batch as usize,
    )))
}
