//! The loop of all ranks: requests become sequences of the generator, and its tokens go to clients.

use crate::{Front, metrics::Metrics, protocol::Refusal};
use bootstrap::World;
use serde::{Deserialize, Serialize};
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::Ordering::Relaxed,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};
use tokio::sync::mpsc::UnboundedSender;
use train::{
    Result, Stop,
    generate::{Generated, Generator, Request, RequestId, TICK, relay},
};

/// The sequences of one client's request, and where their tokens go. The client has left once nobody receives.
pub(crate) struct Job {
    pub(crate) requests: Vec<Request>,
    pub(crate) answers: UnboundedSender<Update>,
}

/// News of a job.
pub(crate) enum Update {
    /// A token of the sequence with this index.
    Token(usize, Generated),
    /// It has failed, and no more comes.
    Failed(Refusal),
}

/// What all ranks do before a step.
#[derive(Default, Serialize, Deserialize)]
struct Turn {
    cancel: Vec<u64>,
    add: Vec<Request>,
    ends: bool,
}

/// Answers clients until the first rank is asked to stop; that rank has the `front`. Collective.
///
/// # Errors
/// Those of [`Generator::step`] and of the exchange; [`train::Error::Io`] if the front's thread ends. If the generator refuses a
/// request, only its client gets an error.
pub fn run(world: &World, generator: &mut Generator<'_>, front: Option<Front>) -> Result<()> {
    let mut front = front;
    loop {
        world.beat("waiting for a request");
        let is_idle = generator.is_idle();
        let turn = relay(world, 0, || {
            let desk = front.as_mut().map(|front| &mut front.desk);
            desk.map_or_else(|| Ok(Turn::default()), |desk| desk.turn(is_idle))
        })?;
        for id in turn.cancel {
            generator.cancel(RequestId(id));
        }
        for request in turn.add {
            let added = generator.add(request);
            if let Some(front) = &mut front {
                front.desk.added(added);
            }
        }
        if turn.ends {
            // The front, which is dropped here, first sends what is on its way to clients.
            return Ok(());
        }
        let tokens = match generator.is_idle() {
            true => Vec::new(),
            false => {
                world.beat("generating");
                generator.step()?
            }
        };
        if let Some(front) = &mut front {
            front.desk.measure(generator, tokens.len());
            let deliver = |token| front.desk.deliver(token);
            tokens.into_iter().for_each(deliver);
        }
    }
}

/// The first rank's side of the loop.
pub(crate) struct Desk {
    jobs: Receiver<Job>,
    // Sequences that were taken and that no generator has yet, and those that it has.
    taken: VecDeque<(usize, UnboundedSender<Update>)>,
    open: HashMap<RequestId, (usize, UnboundedSender<Update>)>,
    metrics: Arc<Metrics>,
    stop: Arc<Stop>,
    grace: Duration,
    // When the last request has to end, once the server was asked to stop.
    deadline: Option<Instant>,
    // Called when no more requests are wanted.
    close: Box<dyn Fn() + Send>,
}

impl Desk {
    /// Takes what comes from `jobs` until it is asked to stop, and then calls `close`.
    pub(crate) fn new(
        jobs: Receiver<Job>,
        metrics: Arc<Metrics>,
        (stop, grace): (Arc<Stop>, Duration),
        close: impl Fn() + Send + 'static,
    ) -> Desk {
        Desk {
            jobs,
            taken: VecDeque::new(),
            open: HashMap::new(),
            metrics,
            stop,
            grace,
            deadline: None,
            close: Box::new(close),
        }
    }

    // What comes next: an idle generator waits for it, though not longer than the other ranks do.
    fn turn(&mut self, is_idle: bool) -> Result<Turn> {
        let mut turn = Turn::default();
        if self.deadline.is_none() && self.stop.asked() {
            self.deadline = Some(Instant::now() + self.grace);
            (self.close)();
        }
        if is_idle && self.deadline.is_none() {
            match self.jobs.recv_timeout(TICK) {
                Ok(job) => self.take(job, &mut turn),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(
                        std::io::Error::other("the thread that speaks HTTP has ended").into(),
                    );
                }
            }
        }
        while let Ok(job) = self.jobs.try_recv() {
            self.take(job, &mut turn);
        }
        if self.deadline.is_some_and(|end| Instant::now() >= end) {
            let open = self.open.drain().map(|(_, (_, answers))| answers);
            for answers in open.chain(self.taken.drain(..).map(|(_, answers)| answers)) {
                answers.send(Update::Failed(Refusal::ending())).ok();
            }
            turn.ends = true;
        }
        let has_left = |(id, (_, answers)): (&RequestId, &(usize, UnboundedSender<Update>))| {
            answers.is_closed().then_some(id.0)
        };
        turn.cancel = self.open.iter().filter_map(has_left).collect();
        for id in &turn.cancel {
            self.open.remove(&RequestId(*id));
        }
        let cancelled = turn.cancel.len() as u64;
        self.metrics.cancelled.fetch_add(cancelled, Relaxed);
        turn.ends |= self.deadline.is_some() && self.open.is_empty() && turn.add.is_empty();
        Ok(turn)
    }

    fn take(&mut self, job: Job, turn: &mut Turn) {
        for (index, request) in job.requests.into_iter().enumerate() {
            self.taken.push_back((index, job.answers.clone()));
            turn.add.push(request);
        }
    }

    // The generator has the next sequence of those taken, or refuses it.
    fn added(&mut self, added: Result<RequestId>) {
        let Some((index, answers)) = self.taken.pop_front() else {
            return;
        };
        match added {
            Ok(id) => {
                self.open.insert(id, (index, answers));
            }
            Err(error) => {
                answers.send(Update::Failed(error.into())).ok();
            }
        }
    }

    fn deliver(&mut self, token: Generated) {
        let (id, is_last) = (token.request, token.finish.is_some());
        if let Some((index, answers)) = self.open.get(&id) {
            // A client that has left is noticed before the next step.
            answers.send(Update::Token(*index, token)).ok();
        }
        if is_last {
            self.open.remove(&id);
        }
    }

    fn measure(&self, generator: &Generator<'_>, tokens: usize) {
        let metrics = &self.metrics;
        let prompts = generator.speed().prefill_tokens as u64;
        metrics.prompt_tokens.store(prompts, Relaxed);
        let reused = generator.speed().reused_tokens as u64;
        metrics.reused_tokens.store(reused, Relaxed);
        metrics.generated_tokens.fetch_add(tokens as u64, Relaxed);
        metrics.running.store(generator.num_running(), Relaxed);
        metrics.waiting.store(generator.num_waiting(), Relaxed);
    }
}
