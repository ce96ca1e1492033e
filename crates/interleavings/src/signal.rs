//! The signal of the CPU's threads (`cpu/src/wait.rs`).

use crate::sync::{Waits, explore, explore_both};
use crate::wait::Signal;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom::thread;
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_millis(50);

// The condition is read and written relaxed: the signal itself must order it.
#[derive(Default)]
struct Announced {
    happened: AtomicBool,
    signal: Signal,
}

impl Announced {
    fn announce(&self) {
        self.happened.store(true, Relaxed);
        self.signal.raise();
    }

    fn wait(&self) {
        loop {
            let seen = self.signal.seen();
            if self.happened.load(Relaxed) {
                return;
            }
            if self.signal.wait(seen, LIMIT) {
                assert!(self.happened.load(Relaxed), "an announced change is seen");
            }
        }
    }
}

/// A waiter wakes up after a change, wherever in its wait the change falls, and then sees it.
pub fn a_change_wakes_its_waiter() {
    explore_both(3, || {
        let announced = Arc::new(Announced::default());
        let waiter = announced.clone();
        let waiter = thread::spawn(move || waiter.wait());
        announced.announce();
        waiter.join().unwrap();
    });
}

/// One change wakes every waiter.
pub fn a_change_wakes_every_waiter() {
    explore(Waits::Notified, 2, || {
        let announced = Arc::new(Announced::default());
        let waiters = [(); 2].map(|()| {
            let waiter = announced.clone();
            thread::spawn(move || waiter.wait())
        });
        announced.announce();
        for waiter in waiters {
            waiter.join().unwrap();
        }
    });
}

/// Two threads that wait for each other in turn lose no change.
pub fn two_threads_take_turns() {
    explore(Waits::Notified, 2, || {
        let signals = Arc::new([Signal::default(), Signal::default()]);
        let other = signals.clone();
        let other = thread::spawn(move || {
            while !other[0].wait(0, LIMIT) {}
            other[1].raise();
        });
        signals[0].raise();
        while !signals[1].wait(0, LIMIT) {}
        other.join().unwrap();
    });
}
