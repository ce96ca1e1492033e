//! What a stage queues, and where: passes and the ends of messages.

use super::{
    Action, ChunkLocation, Pass,
    action::Role,
    order::receives_until,
    sharing::{Sharing, Steps},
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A message, by link, micro-batch and pass.
pub(super) type Message = (usize, usize, Pass);

// The queue of passes and, as all ranks of a stage queue them in one order, of collectives.
const WORK: usize = 0;

/// What a queue runs once the operations of the stage that it needs have run.
struct Operation {
    needs: Vec<usize>,
    // The message of which this is one end.
    message: Option<Message>,
}

/// The operations in the queues of a stage.
#[derive(Default)]
pub(super) struct Queued {
    operations: Vec<Operation>,
    done: Vec<bool>,
    pub(super) queues: Vec<VecDeque<usize>>,
}

impl Queued {
    /// The message at the front of a queue, if any, unless the queue is empty or its front needs what has not run.
    pub(super) fn ready(&self, queue: usize) -> Option<Option<Message>> {
        let front = &self.operations[*self.queues[queue].front()?];
        let is_ready = front.needs.iter().all(|needed| self.done[*needed]);
        is_ready.then_some(front.message)
    }

    pub(super) fn run(&mut self, queue: usize) {
        if let Some(front) = self.queues[queue].pop_front() {
            self.done[front] = true;
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    fn push(&mut self, queue: usize, operation: Operation) -> usize {
        let number = self.operations.len();
        self.operations.push(operation);
        self.done.push(false);
        if self.queues.len() <= queue {
            self.queues.resize_with(queue + 1, VecDeque::new);
        }
        self.queues[queue].push_back(number);
        number
    }

    /// What the host of a stage queues, in its order.
    pub(super) fn of(steps: &Steps<'_>, sharing: Sharing, stage: usize) -> Queued {
        let mut queued = Host {
            steps,
            sharing,
            stage,
            known: match steps.known {
                true => (0..steps.links.len()).collect(),
                false => BTreeSet::new(),
            },
            received: BTreeMap::new(),
            ran: BTreeMap::new(),
            last: None,
            queued: Queued::default(),
        };
        for list in &steps.lists[stage] {
            queued.list(list);
        }
        queued.queued
    }
}

/// The host of a stage while it queues.
struct Host<'a> {
    steps: &'a Steps<'a>,
    sharing: Sharing,
    stage: usize,
    // Links whose wires have known shapes, so that they can be received ahead.
    known: BTreeSet<usize>,
    received: BTreeMap<Message, usize>,
    // By pass, micro-batch and chunk.
    ran: BTreeMap<(Pass, usize, usize), usize>,
    // The latest pass.
    last: Option<usize>,
    queued: Queued,
}

impl Host<'_> {
    fn list(&mut self, list: &[Action]) {
        let mut received = 0;
        for (at, action) in list.iter().enumerate() {
            let until = receives_until(list, at, |action| action.is_pass());
            while received < until {
                let action = list[received];
                if let Role::Receive(_) = action.role() {
                    let links = self.links(action, action.pass());
                    if received > at && !links.iter().all(|link| self.known.contains(link)) {
                        break;
                    }
                    self.receive(action);
                }
                received += 1;
            }
            match action.role() {
                Role::Run => self.run(*action),
                Role::Send(_) => self.send(*action),
                Role::PutOff | Role::Receive(_) => {}
            }
        }
    }

    // Other stages' messages for a pass, also those that no action lists, as of a link that skips parts into the part where a V turns.
    fn receive(&mut self, action: Action) -> Vec<usize> {
        let (pass, micro_batch) = (action.pass(), action.micro_batch());
        let links = self.links(action, pass);
        let receive = |link| {
            let message = (link, micro_batch, pass);
            if let Some(number) = self.received.get(&message) {
                return *number;
            }
            let queue = self.queue_of(link, pass, true);
            // Its memory may be that of an earlier pass, and the host of a CPU runs passes itself.
            let operation = Operation {
                needs: self.last.into_iter().collect(),
                message: Some(message),
            };
            self.known.insert(link);
            let number = self.queued.push(queue, operation);
            self.received.insert(message, number);
            number
        };
        links.into_iter().map(receive).collect()
    }

    fn run(&mut self, action: Action) {
        let needs = self.receive(action);
        let operation = Operation {
            needs,
            message: None,
        };
        let number = self.queued.push(WORK, operation);
        self.last = Some(number);
        let key = (action.pass(), action.micro_batch(), action.chunk());
        self.ran.insert(key, number);
        if !self.lists_sends_of(action) {
            self.send(action);
        }
    }

    fn send(&mut self, action: Action) {
        let (pass, micro_batch) = (action.pass(), action.micro_batch());
        let needs: Vec<usize> = self
            .ran
            .get(&(pass, micro_batch, action.chunk()))
            .copied()
            .into_iter()
            .collect();
        for link in self.links(action, pass.reverse()) {
            let queue = self.queue_of(link, pass, false);
            let operation = Operation {
                needs: needs.clone(),
                message: Some((link, micro_batch, pass)),
            };
            self.known.insert(link);
            self.queued.push(queue, operation);
        }
    }

    // The next part on the way of a pass is on another stage, so an action sends what this part makes.
    fn lists_sends_of(&self, action: Action) -> bool {
        let stages = self.steps.stages;
        let part = self.part(action);
        let next = match action.pass() {
            Pass::Forward => Some(part + 1).filter(|next| *next < stages.num_parts()),
            Pass::Backward => part.checked_sub(1),
        };
        next.is_none_or(|next| stages.location(next).stage != self.stage)
    }

    // Links to other stages that end at the part where a pass of this direction begins.
    fn links(&self, action: Action, pass: Pass) -> Vec<usize> {
        let part = self.part(action);
        let links = self.steps.links.iter().enumerate();
        let here = |(from, to): (usize, usize)| match pass {
            Pass::Forward => to == part && !self.is_here(from),
            Pass::Backward => from == part && !self.is_here(to),
        };
        links
            .filter(|(_, link)| here(**link))
            .map(|(index, _)| index)
            .collect()
    }

    fn is_here(&self, part: usize) -> bool {
        self.steps.stages.location(part).stage == self.stage
    }

    fn part(&self, action: Action) -> usize {
        self.steps.stages.part(ChunkLocation {
            stage: self.stage,
            chunk: action.chunk(),
        })
    }

    fn queue_of(&self, link: usize, pass: Pass, is_received: bool) -> usize {
        let (from, to) = self.steps.links[link];
        let kind = 2 * usize::from(is_received) + usize::from(pass == Pass::Backward);
        let way = 4 * usize::from(self.steps.stages.is_way_back(from));
        match self.sharing {
            Sharing::Links if to != from + 1 => 1 + kind + 8 * (link + 1),
            Sharing::Links | Sharing::Ways => 1 + kind + way,
            Sharing::Kinds => 1 + kind,
            Sharing::Ends => 1 + usize::from(is_received),
            Sharing::Receives => usize::from(is_received),
        }
    }
}
