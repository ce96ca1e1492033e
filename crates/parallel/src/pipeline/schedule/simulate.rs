//! Runs the message-driven policy on all stages in virtual time, and records its decisions as a schedule.

use super::{
    ChunkLocation, Decision, MessageDriven, Pass, Ready, Result, Schedule, Stages, program::Task,
    shape::Shape,
};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

/// How long one micro-batch occupies a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Of a forward.
    pub forward_us: u64,
    /// Of a backward.
    pub backward_us: u64,
}

/// One message, for which a delay is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hop {
    /// Forward for an activation, backward for a gradient.
    pub pass: Pass,
    /// The micro-batch.
    pub micro_batch: usize,
    /// The sending stage.
    pub from: usize,
    /// The receiving stage.
    pub to: usize,
}

/// The schedule that the message-driven policy follows if messages take the given times.
///
/// `in_flight_limit` applies to every stage; by default it is the number of stages. Messages of one channel
/// never overtake one another: each arrives no earlier than the one before it. The same delays give the same
/// schedule.
///
/// # Errors
/// As [`build`](super::build).
pub fn simulate(
    num_stages: usize,
    num_micro_batches: usize,
    in_flight_limit: Option<usize>,
    pace: Pace,
    delay_us: impl FnMut(Hop) -> u64,
) -> Result<Schedule> {
    let shape = Shape::new("simulate", Stages::plain(num_stages), num_micro_batches)?;
    let limit = in_flight_limit.unwrap_or(num_stages);
    let stages = (0..num_stages)
        .map(|stage| Actor::new(stage, shape, limit))
        .collect::<Result<_>>()?;
    let wakes = (0..num_stages).map(|stage| Reverse((0, stage))).collect();
    let mut world = World {
        shape,
        pace,
        delay_us,
        stages,
        wakes,
    };
    world.run();
    Ok(Schedule::from_tasks(shape, |stage| {
        let log = std::mem::take(&mut world.stages[stage].log);
        log.into_iter().map(|(pass, micro_batch)| match pass {
            Pass::Forward => Task::forward(micro_batch, 0),
            Pass::Backward => Task::backward(micro_batch, 0),
        })
    }))
}

/// One stage: its policy, the arrival times of unused messages, and its work so far.
struct Actor {
    policy: MessageDriven,
    free_at: u64,
    activations: Inbox,
    gradients: Inbox,
    log: Vec<(Pass, usize)>,
}

#[derive(Default)]
struct Inbox {
    arrivals: VecDeque<u64>,
    latest: u64,
}

impl Inbox {
    /// Adds a message that would arrive at `at`, but not before the one in front of it; returns its arrival
    /// time.
    fn post(&mut self, at: u64) -> u64 {
        self.latest = self.latest.max(at);
        self.arrivals.push_back(self.latest);
        self.latest
    }

    fn has_by(&self, now: u64) -> bool {
        self.arrivals.front().is_some_and(|at| *at <= now)
    }
}

impl Actor {
    fn new(stage: usize, shape: Shape, limit: usize) -> Result<Actor> {
        let policy =
            MessageDriven::new(stage, shape.stages.number, shape.num_micro_batches, limit)?;
        let (activations, gradients) = (Inbox::default(), Inbox::default());
        Ok(Actor {
            policy,
            free_at: 0,
            activations,
            gradients,
            log: Vec::new(),
        })
    }

    /// Asks the policy, consumes the message on which it acts, and records the work.
    fn decide(&mut self, now: u64) -> Option<(Pass, usize)> {
        let ready = Ready {
            activation: self.activations.has_by(now),
            gradient: self.gradients.has_by(now),
        };
        let Decision::Run(pass, micro_batch) = self.policy.next(ready) else {
            return None;
        };
        self.inbox(pass).arrivals.pop_front();
        self.log.push((pass, micro_batch));
        Some((pass, micro_batch))
    }

    fn inbox(&mut self, pass: Pass) -> &mut Inbox {
        match pass {
            Pass::Forward => &mut self.activations,
            Pass::Backward => &mut self.gradients,
        }
    }
}

struct World<D> {
    shape: Shape,
    pace: Pace,
    delay_us: D,
    stages: Vec<Actor>,
    /// Times at which a stage has reason to decide: it is free again, or a message arrived. Earliest first,
    /// then by stage.
    wakes: BinaryHeap<Reverse<(u64, usize)>>,
}

impl<D: FnMut(Hop) -> u64> World<D> {
    fn run(&mut self) {
        while let Some(Reverse((now, stage))) = self.wakes.pop() {
            // A busy stage has its own wake-up for the moment when it is free.
            if self.stages[stage].free_at <= now
                && let Some((pass, micro_batch)) = self.stages[stage].decide(now)
            {
                self.carry_out(now, stage, pass, micro_batch);
            }
        }
    }

    fn carry_out(&mut self, now: u64, stage: usize, pass: Pass, micro_batch: usize) {
        let duration = match pass {
            Pass::Forward => self.pace.forward_us,
            Pass::Backward => self.pace.backward_us,
        };
        let end = now.saturating_add(duration);
        self.stages[stage].free_at = end;
        self.wakes.push(Reverse((end, stage)));
        if let Some(target) = self.shape.target(ChunkLocation { stage, chunk: 0 }, pass) {
            let hop = Hop {
                pass,
                micro_batch,
                from: stage,
                to: target.stage,
            };
            let arrival = end.saturating_add((self.delay_us)(hop));
            let arrival = self.stages[target.stage].inbox(pass).post(arrival);
            self.wakes.push(Reverse((arrival, target.stage)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_messages_change_the_mixture_not_the_order() {
        let pace = Pace {
            forward_us: 1,
            backward_us: 1,
        };
        let prompt = simulate(2, 3, None, pace, |_| 0).unwrap();
        let slow = simulate(2, 3, None, pace, |hop| {
            if hop.pass == Pass::Backward { 9 } else { 0 }
        })
        .unwrap();
        // Stage 1 turns each micro-batch around at once, however late its gradients arrive at stage 0.
        assert_eq!(prompt.stages[1], slow.stages[1]);
        let first_row = |schedule: &Schedule| {
            schedule
                .to_string()
                .lines()
                .next()
                .map(str::to_string)
                .unwrap()
        };
        assert_eq!(first_row(&prompt), "stage 0 | F0 F1 .  B0 F2 B1 .  B2");
        let one_at_a_time = simulate(2, 3, Some(1), pace, |_| 0).unwrap();
        assert_eq!(
            first_row(&one_at_a_time),
            "stage 0 | F0 .  .  B0 F1 .  .  B1 F2 .  .  B2"
        );
    }

    #[test]
    fn a_late_activation_lets_gradients_go_first() {
        let pace = Pace {
            forward_us: 1,
            backward_us: 1,
        };
        let late = |hop: Hop| {
            if hop.pass == Pass::Forward && hop.micro_batch == 2 {
                20
            } else {
                0
            }
        };
        let order = |schedule: Schedule| -> Vec<(Pass, usize)> {
            let tasks = schedule.stages[1]
                .iter()
                .filter(|action| action.peer().is_none());
            tasks
                .map(|action| (action.pass(), action.micro_batch()))
                .collect()
        };
        let (prompt, late) = (
            simulate(3, 3, None, pace, |_| 0).unwrap(),
            simulate(3, 3, None, pace, late).unwrap(),
        );
        use Pass::{Backward as B, Forward as F};
        assert_eq!(
            order(prompt),
            [(F, 0), (F, 1), (F, 2), (B, 0), (B, 1), (B, 2)]
        );
        assert_eq!(
            order(late),
            [(F, 0), (F, 1), (B, 0), (B, 1), (F, 2), (B, 2)]
        );
    }
}
