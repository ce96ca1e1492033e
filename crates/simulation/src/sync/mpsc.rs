//! Channels between threads, over the primitives of this module.

use super::{Condvar, Mutex, time::Instant};
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError};

/// Sends values.
#[derive(Debug)]
pub struct Sender<T>(Arc<Shared<T>>);

/// Receives them, in the order in which they were sent.
#[derive(Debug)]
pub struct Receiver<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<Queue<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Queue<T> {
    values: VecDeque<T>,
    num_senders: usize,
    is_read: bool,
}

/// A channel that holds any number of values.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let queue = Queue {
        values: VecDeque::new(),
        num_senders: 1,
        is_read: true,
    };
    let shared = Arc::new(Shared {
        state: Mutex::new(queue),
        changed: Condvar::new(),
    });
    (Sender(shared.clone()), Receiver(shared))
}

impl<T> Shared<T> {
    fn lock(&self) -> super::MutexGuard<'_, Queue<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Sender<T> {
    /// Sends a value.
    ///
    /// # Errors
    /// The value, if nobody can receive it any more.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        let mut queue = self.0.lock();
        if !queue.is_read {
            return Err(SendError(value));
        }
        queue.values.push_back(value);
        drop(queue);
        self.0.changed.notify_one();
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.lock().num_senders += 1;
        Sender(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.lock().num_senders -= 1;
        self.0.changed.notify_one();
    }
}

impl<T> Receiver<T> {
    /// Waits for a value.
    ///
    /// # Errors
    /// That nobody can send one any more.
    pub fn recv(&self) -> Result<T, RecvError> {
        let mut queue = self.0.lock();
        loop {
            if let Some(value) = queue.values.pop_front() {
                return Ok(value);
            }
            if queue.num_senders == 0 {
                return Err(RecvError);
            }
            queue = self
                .0
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for a value, but no longer than `limit`.
    ///
    /// # Errors
    /// That there is none, or can be none any more.
    pub fn recv_timeout(&self, limit: Duration) -> Result<T, RecvTimeoutError> {
        let begun = Instant::now();
        let mut queue = self.0.lock();
        loop {
            if let Some(value) = queue.values.pop_front() {
                return Ok(value);
            }
            if queue.num_senders == 0 {
                return Err(RecvTimeoutError::Disconnected);
            }
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Err(RecvTimeoutError::Timeout);
            }
            let waited = self.0.changed.wait_timeout(queue, left);
            (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.is_read = false;
        let unread = std::mem::take(&mut queue.values);
        drop(queue);
        drop(unread);
    }
}
