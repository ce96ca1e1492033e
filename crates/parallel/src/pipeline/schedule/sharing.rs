//! Whether a pipeline finishes when messages share streams.
//!
//! The work of a stream runs in the order in which it was queued. A message runs once both of its ends are at the front of their
//! streams, so messages that share a stream may wait for each other in a circle, even if the schedule itself finishes. A device
//! with few queues leaves no choice, so a schedule is run here, with its messages at the ends of streams, before a device hangs.

use super::{
    Action, Placement, Stages,
    queued::{Message, Queued},
};
use std::collections::HashMap;

/// Which messages of a rank share a stream. Each shares more than the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Those of a kind and a way to or from neighbours; others with those of their link alone.
    Links,
    /// Those of a kind, and of a way through the stages: a V has a way back.
    Ways,
    /// Those of a kind: activations or gradients, sent or received.
    Kinds,
    /// All that are sent; all that are received.
    Ends,
    /// All that are received. What is sent shares the stream of collectives.
    Receives,
}

impl Sharing {
    /// All of them, from the most streams to the fewest.
    pub const ALL: [Sharing; 5] = [
        Sharing::Links,
        Sharing::Ways,
        Sharing::Kinds,
        Sharing::Ends,
        Sharing::Receives,
    ];

    /// The number of streams for messages, on a rank with `num_skips` links that skip parts.
    pub fn num_streams(self, placement: Placement, num_skips: usize) -> usize {
        let of_ways = match placement {
            Placement::Wrap => 4,
            Placement::V => 8,
        };
        match self {
            // A rank is at one end of a link, so activations go one way and gradients the other.
            Sharing::Links => of_ways + 2 * num_skips,
            Sharing::Ways => of_ways,
            Sharing::Kinds => 4,
            Sharing::Ends => 2,
            Sharing::Receives => 1,
        }
    }
}

/// What every stage does.
pub(crate) struct Steps<'a> {
    /// By stage, a list for each step, with micro-batches that are counted through the steps.
    pub lists: &'a [Vec<Vec<Action>>],
    /// The parts on the stages.
    pub stages: Stages,
    /// The parts between which messages pass: sender and receiver of activations.
    pub links: &'a [(usize, usize)],
    /// Whether stages know from earlier steps what arrives, so that they queue receives one pass ahead from the beginning.
    pub known: bool,
}

/// Whether all stages finish.
pub(crate) fn finishes(steps: &Steps<'_>, sharing: Sharing) -> bool {
    let stages = (0..steps.lists.len()).map(|stage| Queued::of(steps, sharing, stage));
    let mut stages: Vec<Queued> = stages.collect();
    let mut fronts = HashMap::new();
    // Each queue runs as far as it can; if a full round advances none, none will ever advance.
    while advance(&mut stages, &mut fronts) {}
    stages.iter().all(Queued::is_done)
}

/// A stage, and a queue of it.
type Front = (usize, usize);

fn advance(stages: &mut [Queued], fronts: &mut HashMap<Message, Front>) -> bool {
    let mut any = false;
    for stage in 0..stages.len() {
        for queue in 0..stages[stage].queues.len() {
            while let Some(message) = stages[stage].ready(queue) {
                let own = (stage, queue);
                match message.map(|message| *fronts.entry(message).or_insert(own)) {
                    Some(front) if front == own => break,
                    Some((stage, queue)) => stages[stage].run(queue),
                    None => {}
                }
                stages[stage].run(queue);
                any = true;
            }
        }
    }
    any
}
