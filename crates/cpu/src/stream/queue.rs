//! Work that runs in order on a separate thread.

use super::event::{Marker, Passed, QueueEvent, panicked};
use crate::patience::Running;
use crate::wait::{POLL, Signal};
use hal::sync::atomic::{AtomicBool, Ordering};
use hal::sync::{Mutex, thread, thread::JoinHandle};
use hal::{DeviceId, Error, Event, Result, lock};
use std::cell::OnceCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// A piece of work; it owns everything it needs, or the submitter guarantees it.
pub(super) type Job = Box<dyn FnOnce() -> Result<()> + Send>;

/// A queue and its worker, which starts with the first job and ends when the queue is dropped.
#[derive(Debug)]
pub(super) struct Queue {
    shared: Arc<Shared>,
    worker: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    device: DeviceId,
    state: Mutex<QueueState>,
    work: Signal,
    cancelled: AtomicBool,
}

#[derive(Debug, Default)]
struct QueueState {
    steps: VecDeque<Step>,
    // A step has been taken from the queue and has not ended.
    busy: bool,
    closed: bool,
    failed: Option<Error>,
}

impl QueueState {
    // A marker behind everything queued so far, unless all of it has ended.
    fn mark(&mut self) -> Option<Arc<Marker>> {
        if self.steps.is_empty() && !self.busy {
            return None;
        }
        let marker = Arc::new(Marker::default());
        // The worker need not be notified: it takes another look after the work that is ahead of the marker.
        self.steps.push_back(Step::Pass(marker.clone()));
        Some(marker)
    }
}

enum Step {
    Run(Job),
    Wait(Arc<Marker>),
    Pass(Arc<Marker>),
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Step::Run(_) => "Run",
            Step::Wait(_) => "Wait",
            Step::Pass(_) => "Pass",
        })
    }
}

impl Queue {
    /// An empty queue.
    pub(super) fn new(device: DeviceId) -> Queue {
        let shared = Shared {
            device,
            state: Mutex::default(),
            work: Signal::default(),
            cancelled: AtomicBool::new(false),
        };
        Queue {
            shared: Arc::new(shared),
            worker: Mutex::new(None),
        }
    }

    /// # Errors
    /// The first failure.
    pub(super) fn check(&self) -> Result<()> {
        lock(&self.shared.state).failed.clone().map_or(Ok(()), Err)
    }

    /// Queues a job; it is dropped instead of run once the stream has failed.
    ///
    /// # Errors
    /// The earlier failure; [`Error::Vendor`] when the system refuses a thread.
    pub(super) fn submit(&self, job: Job) -> Result<()> {
        self.push(Step::Run(job))
    }

    /// Makes later jobs wait for a point in another stream.
    ///
    /// # Errors
    /// As [`submit`](Queue::submit).
    pub(super) fn wait(&self, marker: Arc<Marker>) -> Result<()> {
        self.push(Step::Wait(marker))
    }

    /// Marks the point that the queue has reached.
    ///
    /// # Errors
    /// The first failure.
    pub(super) fn record(&self) -> Result<Arc<dyn Event>> {
        let mut state = lock(&self.shared.state);
        // Under the same lock as the mark: an idle queue whose last job failed has not passed any point.
        state.failed.clone().map_or(Ok(()), Err)?;
        Ok(match state.mark() {
            Some(marker) => Arc::new(QueueEvent(marker)),
            None => Arc::new(Passed::now()),
        })
    }

    /// Waits on the host for everything queued so far.
    ///
    /// # Errors
    /// The first failure.
    pub(super) fn synchronize(&self) -> Result<()> {
        let marker = lock(&self.shared.state).mark();
        match marker {
            Some(marker) => marker.until_passed(),
            None => self.check(),
        }
    }

    fn push(&self, step: Step) -> Result<()> {
        self.check()?;
        self.start()?;
        lock(&self.shared.state).steps.push_back(step);
        self.shared.work.raise();
        Ok(())
    }

    fn start(&self) -> Result<()> {
        let mut worker = lock(&self.worker);
        if worker.is_none() {
            let (shared, device) = (self.shared.clone(), self.shared.device);
            let builder = thread::Builder::new().name(format!("{device} queue"));
            *worker =
                Some(
                    builder
                        .spawn(move || shared.serve())
                        .map_err(|error| Error::Vendor {
                            call: "start the communication stream's thread".into(),
                            code: error.raw_os_error().unwrap_or(-1).into(),
                            reason: error.to_string(),
                            device,
                        })?,
                );
        }
        Ok(())
    }
}

impl Drop for Queue {
    // Queued work still runs, as on every vendor. A rank that unwinds from a panic ends its waits instead,
    // because the peers for which it waits may be waiting for the abort that follows the panic.
    fn drop(&mut self) {
        lock(&self.shared.state).closed = true;
        self.shared
            .cancelled
            .store(thread::panicking(), Ordering::Relaxed);
        self.shared.work.raise();
        if let Some(worker) = lock(&self.worker).take()
            && worker.thread().id() != thread::current().id()
        {
            // The worker catches panics of jobs, so joining reports nothing new.
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn serve(self: Arc<Shared>) {
        CANCELLED.with(|flag| drop(flag.set(self.clone())));
        let _running = Running::more(1);
        loop {
            let seen = self.work.seen();
            match self.next() {
                Next::Step(step) => self.take(step),
                Next::Idle => drop(self.work.wait(seen, Duration::from_secs(3600))),
                Next::Closed => return,
            }
        }
    }

    fn next(&self) -> Next {
        let mut state = lock(&self.state);
        let step = state.steps.pop_front();
        state.busy = step.is_some();
        match step {
            Some(step) => Next::Step(step),
            None if state.closed => Next::Closed,
            None => Next::Idle,
        }
    }

    fn take(&self, step: Step) {
        let failed = lock(&self.state).failed.clone();
        match (step, failed) {
            (Step::Pass(marker), failed) => marker.pass(failed.map_or(Ok(()), Err)),
            (_, Some(_)) => {}
            (Step::Run(job), None) => self.note(self.run(job)),
            (Step::Wait(marker), None) => self.note(self.await_marker(&marker)),
        }
    }

    fn run(&self, job: Job) -> Result<()> {
        // The job is consumed and its failure recorded, so its broken state is never seen again.
        catch_unwind(AssertUnwindSafe(job))
            .unwrap_or_else(|panic| Err(panicked(self.device, &*panic)))
    }

    fn await_marker(&self, marker: &Marker) -> Result<()> {
        loop {
            if let Some(outcome) = marker.wait(POLL) {
                return outcome;
            }
            if self.cancelled.load(Ordering::Relaxed) {
                let reason = "the rank's thread panicked".into();
                return Err(Error::Vendor {
                    call: "wait for an event".into(),
                    code: -1,
                    reason,
                    device: self.device,
                });
            }
        }
    }

    fn note(&self, outcome: Result<()>) {
        if let Err(error) = outcome {
            lock(&self.state).failed.get_or_insert(error);
        }
    }
}

enum Next {
    Step(Step),
    Idle,
    Closed,
}

hal::sync::thread_local! {
    static CANCELLED: OnceCell<Arc<Shared>> = const { OnceCell::new() };
}

/// Whether the calling thread works for a stream whose owner is unwinding from a panic and cannot wait.
pub(crate) fn cancelled() -> bool {
    CANCELLED.with(|queue| {
        queue
            .get()
            .is_some_and(|queue| queue.cancelled.load(Ordering::Relaxed))
    })
}
