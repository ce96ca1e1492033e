//! Runs a schedule in virtual time, to find out whether it finishes and when.

use super::{Action, Pass, Schedule, Times, action::Role};
use std::{
    collections::{HashMap, VecDeque},
    fmt,
};

/// Whether a stage waits for its sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sends {
    /// A send goes to a queue for its neighbour and direction, and the stage continues.
    Queued,
    /// A send blocks the stage until the other side has reached the receive.
    Blocking,
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
    times: &Times,
) -> Result<Vec<Vec<Span>>, Deadlock> {
    let num_stages = schedule.stages.len();
    let stages = vec![Stage::default(); num_stages];
    let mut machine = Machine {
        schedule,
        sends,
        times,
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
    /// Times at which queued messages were sent to this stage, by sender and pass.
    inboxes: HashMap<(usize, Pass), VecDeque<f64>>,
    spans: Vec<Span>,
}

struct Machine<'a> {
    schedule: &'a Schedule,
    sends: Sends,
    times: &'a Times,
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
            Role::Run | Role::PutOff => self.compute(stage, action),
            Role::Receive(from) => return self.receive(stage, (from, action.pass())),
            Role::Send(to) if self.sends == Sends::Blocking => {
                return self.meet(stage, to, action.pass());
            }
            Role::Send(to) => {
                let sent_us = self.stages[stage].clock_us;
                let inboxes = &mut self.stages[to].inboxes;
                let inbox = inboxes.entry((stage, action.pass())).or_default();
                inbox.push_back(sent_us);
            }
        }
        true
    }

    fn compute(&mut self, stage: usize, action: Action) {
        let start_us = self.stages[stage].clock_us;
        let end_us = start_us + self.times.of(action, self.schedule.splits_backward);
        self.stages[stage].clock_us = end_us;
        self.stages[stage].spans.push(Span {
            action,
            start_us,
            end_us,
        });
    }

    fn receive(&mut self, stage: usize, from: (usize, Pass)) -> bool {
        let stage = &mut self.stages[stage];
        let sent_us = stage.inboxes.get_mut(&from).and_then(VecDeque::pop_front);
        let Some(sent_us) = sent_us else {
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
