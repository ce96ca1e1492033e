//! A thread's part in its simulation: when it gives up its turn, and how it waits for the next one.

use super::core::{Core, Settings};
use std::cell::RefCell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

std::thread_local! {
    static OWN: RefCell<Option<Own>> = const { RefCell::new(None) };
}

/// A simulation, as its threads share it.
#[derive(Debug)]
pub(super) struct Shared {
    core: Mutex<Core>,
    /// Wakes the thread that started the simulation, at its end.
    over: (Mutex<bool>, Condvar),
}

/// The calling thread in its simulation.
#[derive(Clone, Debug)]
pub(super) struct Own {
    shared: Arc<Shared>,
    thread: usize,
}

/// The calling thread, if it belongs to a simulation.
pub(super) fn own() -> Option<Own> {
    // A thread whose locals are gone has left its simulation.
    OWN.try_with(|own| own.try_borrow().ok()?.clone()).ok()?
}

/// The turn may pass to another thread here.
pub(super) fn point() {
    if let Some(own) = own() {
        own.point();
    }
}

/// The process to which the calling thread belongs; 0 outside a simulation.
pub fn process() -> usize {
    own().map_or(0, |own| own.core().process_of(own.thread))
}

impl Shared {
    pub(super) fn new(settings: Settings) -> Arc<Shared> {
        Arc::new(Shared {
            core: Mutex::new(Core::new(settings)),
            over: Default::default(),
        })
    }

    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits, outside the simulation, until it is over.
    pub(super) fn wait_until_over(&self) {
        let over = self.over.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.over.1.wait_while(over, |over| !*over));
    }

    pub(super) fn end(&self) {
        *self.over.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.over.1.notify_all();
    }
}

impl Own {
    pub(super) fn new(shared: Arc<Shared>, thread: usize) -> Own {
        Own { shared, thread }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        self.shared.core()
    }

    /// Makes the calling thread of the system this one, which waits for its first turn.
    pub(super) fn enter(self) {
        self.core().set_system(self.thread, thread::current());
        OWN.set(Some(self.clone()));
        self.wait_for_turn();
    }

    /// The thread leaves its simulation for good.
    pub(super) fn leave(self) {
        OWN.set(None);
        let mut core = self.core();
        core.end(self.thread);
        core.wake_all(self.end_key());
        self.pass_on(core);
    }

    /// The system has refused the thread.
    pub(super) fn never_begins(&self) {
        self.core().end(self.thread);
    }

    /// What those wait for who join this thread: no address of a primitive.
    pub(super) fn end_key(&self) -> usize {
        usize::MAX - self.thread
    }

    /// The turn may pass to another thread here.
    pub(super) fn point(&self) {
        let mut core = self.core();
        if core.pass_point(self.thread) {
            self.pass_on(core);
            self.wait_for_turn();
        }
    }

    /// Waits for a wake-up of `key`, but no longer than `limit`; returns whether that ended the wait.
    pub(super) fn wait(&self, what: &'static str, key: usize, limit: Option<Duration>) -> bool {
        let mut core = self.core();
        core.begin_wait(self.thread, what, key, limit);
        self.pass_on(core);
        self.wait_for_turn();
        self.core().has_expired(self.thread)
    }

    pub(super) fn wake_all(&self, key: usize) {
        self.core().wake_all(key);
    }

    pub(super) fn wake_one(&self, key: usize) {
        self.core().wake_one(key);
    }

    /// Counts locks that the thread holds.
    pub(super) fn hold(&self, more: i32) {
        self.core().hold(self.thread, more);
    }

    /// The clock of the thread's process. Reading it takes time, so a loop that waits for a time ends.
    pub(super) fn read_clock(&self) -> Duration {
        self.point();
        self.core().clock(self.thread)
    }

    /// Adds a thread of the process of this one, unless its name says that it is one of its own.
    pub(super) fn add(&self, name: &str) -> Own {
        let mut core = self.core();
        let own = core.process_of(self.thread);
        let rank = name
            .strip_prefix("rank ")
            .and_then(|rank| rank.parse::<usize>().ok());
        // Process 0 is the one that starts the others.
        let thread = core.add(name.to_owned(), rank.map_or(own, |rank| rank + 1));
        Own::new(self.shared.clone(), thread)
    }

    pub(super) fn is_ended(&self) -> bool {
        self.core().is_ended(self.thread)
    }

    fn pass_on(&self, mut core: MutexGuard<'_, Core>) {
        let next = core.pass_on();
        let (halted, turn) = (core.halted.is_some(), core.turn);
        drop(core);
        match next {
            Some(next) if turn != self.thread => next.unpark(),
            Some(_) => {}
            // A thread that has not begun looks for its turn when it does.
            None if !halted => {}
            None => self.shared.end(),
        }
    }

    fn wait_for_turn(&self) {
        loop {
            let core = self.core();
            if core.turn == self.thread && core.halted.is_none() {
                return;
            }
            drop(core);
            thread::park();
        }
    }
}
