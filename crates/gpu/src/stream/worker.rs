//! A thread that queues a stream's work, so that the host does not wait for other ranks.

use super::Core;
use crate::context::Context;
use hal::{Error, Result, Stopwatch, lock};
use std::{
    sync::{
        Arc, Mutex,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::JoinHandle,
    time::Duration,
};

/// A piece of work. Its argument is the stream's earlier failure, if there was one.
pub(super) type Job = Box<dyn FnOnce(&Core, Result<()>) -> Result<()> + Send>;

/// The thread of one stream.
#[derive(Debug)]
pub(super) struct Worker {
    jobs: Option<Sender<Job>>,
    failure: Arc<Mutex<Option<Error>>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread that feeds `core`.
    pub(super) fn new(core: Arc<Core>) -> Result<Worker> {
        let (jobs, received) = mpsc::channel::<Job>();
        let failure = Arc::<Mutex<Option<Error>>>::default();
        let shared = failure.clone();
        let run = move || {
            received
                .into_iter()
                .for_each(|job| run(&core, &shared, job))
        };
        let thread = std::thread::Builder::new()
            .name("fascicle-stream".into())
            .spawn(run);
        let thread =
            thread.map_err(|error| Error::invalid("stream", error.to_string(), "a thread"))?;
        Ok(Worker {
            jobs: Some(jobs),
            failure,
            thread: Some(thread),
        })
    }

    /// Queues a job. The job receives the failure of an earlier one, if there was one.
    ///
    /// # Errors
    /// The earlier failure.
    pub(super) fn submit(&self, job: Job) -> Result<()> {
        if let Some(error) = &*lock(&self.failure) {
            return Err(error.clone());
        }
        let sent = self
            .jobs
            .as_ref()
            .is_some_and(|jobs| jobs.send(job).is_ok());
        if sent {
            Ok(())
        } else {
            Err(Error::invalid(
                "stream",
                "its thread has ended",
                "a running one",
            ))
        }
    }

    /// Waits until all jobs so far are done.
    ///
    /// # Errors
    /// The first failure among them; those of the context's watches.
    pub(super) fn flush(&self, context: &Context) -> Result<()> {
        let (done, waiting) = mpsc::channel();
        self.submit(Box::new(move |_, state| {
            // No one receives this once the waiter has given up.
            let _ = done.send(());
            state
        }))?;
        let start = Stopwatch::start();
        while let Err(RecvTimeoutError::Timeout) = waiting.recv_timeout(Duration::from_millis(20)) {
            context.watch(start.elapsed())?;
        }
        lock(&self.failure).clone().map_or(Ok(()), Err)
    }
}

fn run(core: &Core, failure: &Mutex<Option<Error>>, job: Job) {
    let state = lock(failure)
        .clone()
        .map_or_else(|| core.context.check(), Err);
    if let Err(error) = job(core, state) {
        lock(failure).get_or_insert(error);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        // A panic in the thread was printed there, and ended the stream.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
