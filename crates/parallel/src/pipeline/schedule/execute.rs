//! Runs a schedule in virtual time, to find out whether it finishes and when.

use super::{Action, Pass, Schedule, action::Role};
use std::{collections::VecDeque, fmt};

/// Whether a stage waits for its sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sends {
    /// A send goes to a queue for its neighbour and direction, and the stage continues.
    Queued,
    /// A send blocks the stage until the other side has reached the receive.
    Blocking,
}

/// Duration of one pass of one micro-batch through one chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub forward_us: f64,
    pub backward_us: f64,
}

/// When a pass ran.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub action: Action,
    pub start_us: f64,
    pub end_us: f64,
}

/// Where every unfinished stage is stuck.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The stages that wait, by number.
    pub stuck: Vec<Stuck>,
}

/// One stage that waits forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The stage.
    pub stage: usize,
    /// Position in its list.
    pub index: usize,
    /// The action that it cannot finish.
    pub action: Action,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (
            count,
            Stuck {
                stage,
                index,
                action,
            },
        ) in self.stuck.iter().enumerate()
        {
            let comma = if count == 0 { "" } else { "; " };
            write!(
                f,
                "{comma}stage {stage} waits at position {index} to {action}"
            )?;
        }
        Ok(())
    }
}

/// Runs a schedule that has the right actions, and whose channels agree on their order.
///
/// It compares no messages: with both facts established, the n-th send of a channel is the n-th receive.
pub(super) fn execute(
    schedule: &Schedule,
    sends: Sends,
    cost: Cost,
) -> Result<Vec<Vec<Span>>, Deadlock> {
    let num_stages = schedule.stages.len();
    let stages = vec![Stage::default(); num_stages];
    let mut machine = Machine {
        schedule,
        sends,
        cost,
        stages,
    };
    // Each stage runs as far as it can; if a full round advances none, none will ever advance.
    while (0..num_stages)
        .filter(|stage| machine.advance(*stage))
        .count()
        > 0
    {}
    machine.finish()
}

#[derive(Clone, Default)]
struct Stage {
    index: usize,
    clock_us: f64,
    /// Times at which queued messages were sent to this stage: activations, gradients.
    inboxes: [VecDeque<f64>; 2],
    spans: Vec<Span>,
}

struct Machine<'a> {
    schedule: &'a Schedule,
    sends: Sends,
    cost: Cost,
    stages: Vec<Stage>,
}

impl Machine<'_> {
    /// Runs a stage until it waits or ends; returns whether it did anything.
    fn advance(&mut self, stage: usize) -> bool {
        let before = self.stages[stage].index;
        while self
            .current(stage)
            .is_some_and(|action| self.attempt(stage, action))
        {
            self.stages[stage].index += 1;
        }
        self.stages[stage].index > before
    }

    fn current(&self, stage: usize) -> Option<Action> {
        self.schedule.stages[stage]
            .get(self.stages[stage].index)
            .copied()
    }

    fn attempt(&mut self, stage: usize, action: Action) -> bool {
        match action.role() {
            Role::Run => self.compute(stage, action),
            Role::Receive(_) => return self.receive(stage, action.pass()),
            Role::Send(to) if self.sends == Sends::Blocking => {
                return self.meet(stage, to, action.pass());
            }
            Role::Send(to) => {
                let sent_us = self.stages[stage].clock_us;
                self.stages[to].inboxes[action.pass() as usize].push_back(sent_us);
            }
        }
        true
    }

    fn compute(&mut self, stage: usize, action: Action) {
        let start_us = self.stages[stage].clock_us;
        let end_us = start_us
            + match action.pass() {
                Pass::Forward => self.cost.forward_us,
                Pass::Backward => self.cost.backward_us,
            };
        self.stages[stage].clock_us = end_us;
        self.stages[stage].spans.push(Span {
            action,
            start_us,
            end_us,
        });
    }

    fn receive(&mut self, stage: usize, pass: Pass) -> bool {
        let stage = &mut self.stages[stage];
        let Some(sent_us) = stage.inboxes[pass as usize].pop_front() else {
            return false;
        };
        stage.clock_us = stage.clock_us.max(sent_us);
        true
    }

    /// A blocking send: done only if the other stage has reached the receive, which is then done too.
    fn meet(&mut self, stage: usize, to: usize, pass: Pass) -> bool {
        let waits = |action: Action| action.role() == Role::Receive(stage) && action.pass() == pass;
        if !self.current(to).is_some_and(waits) {
            return false;
        }
        let now_us = self.stages[stage].clock_us.max(self.stages[to].clock_us);
        self.stages[stage].clock_us = now_us;
        self.stages[to].clock_us = now_us;
        self.stages[to].index += 1;
        true
    }

    fn finish(self) -> Result<Vec<Vec<Span>>, Deadlock> {
        let waiting = |stage| self.current(stage).map(|action| (stage, action));
        let stuck = |(stage, action)| Stuck {
            stage,
            index: self.stages[stage].index,
            action,
        };
        let stuck: Vec<Stuck> = (0..self.stages.len())
            .filter_map(waiting)
            .map(stuck)
            .collect();
        if !stuck.is_empty() {
            return Err(Deadlock { stuck });
        }
        Ok(self.stages.into_iter().map(|stage| stage.spans).collect())
    }
}
