//! The thread on which everything asynchronous runs.

use std::{
    future::Future,
    sync::mpsc::{Sender, channel},
    thread::{Builder, JoinHandle},
};
use tokio::runtime::Runtime;

type Job = Box<dyn FnOnce(&Runtime) + Send>;

/// A thread with a runtime, which does one job at a time. It keeps connections from one job to the next.
#[derive(Debug)]
pub(crate) struct Worker {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread.
    pub(crate) fn start() -> std::io::Result<Worker> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (jobs, queue) = channel::<Job>();
        let work = move || {
            queue.iter().for_each(|job| job(&runtime));
            // A look-up of a name that hangs keeps nobody.
            runtime.shutdown_background();
        };
        Ok(Worker {
            jobs: Some(jobs),
            thread: Some(Builder::new().name("store".into()).spawn(work)?),
        })
    }

    /// Runs a future there, and waits for it; nothing if the thread has ended.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = channel();
        // Whoever asked waits for it.
        let answered = async move { drop(sender.send(future.await)) };
        self.start_job(answered).then(|| receiver.recv().ok())?
    }

    /// Runs a future there, without waiting; whether the thread is there.
    pub(crate) fn start_job(&self, future: impl Future<Output = ()> + Send + 'static) -> bool {
        let job: Job = Box::new(move |runtime| runtime.block_on(future));
        let jobs = self.jobs.as_ref();
        jobs.is_some_and(|jobs| jobs.send(job).is_ok())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // It is between two jobs: each was waited for.
            let _ = thread.join();
        }
    }
}
