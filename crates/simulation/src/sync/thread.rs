//! Threads, which in a simulation run one at a time.

use super::turn::{self, Own};
use std::cell::RefCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

pub use std::thread::{Thread, current, panicking};

/// The standard library's builder of threads.
#[derive(Debug, Default)]
pub struct Builder {
    name: Option<String>,
    stack_bytes: Option<usize>,
}

/// A thread that can be joined.
#[derive(Debug)]
pub struct JoinHandle<T> {
    system: std::thread::JoinHandle<std::thread::Result<T>>,
    simulated: Option<Own>,
}

/// In which threads can be started that borrow.
#[derive(Debug)]
pub struct Scope<'scope, 'env> {
    system: &'scope std::thread::Scope<'scope, 'env>,
    threads: RefCell<Vec<Own>>,
}

/// A thread of a scope.
#[derive(Debug)]
pub struct ScopedJoinHandle<'scope, T> {
    system: std::thread::ScopedJoinHandle<'scope, std::thread::Result<T>>,
    simulated: Option<Own>,
}

impl Builder {
    /// A thread without a name.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Names the thread. A name such as `rank 3` makes it the first thread of that rank's process.
    pub fn name(self, name: String) -> Builder {
        let name = Some(name);
        Builder { name, ..self }
    }

    /// Sets the size of its stack.
    pub fn stack_size(self, bytes: usize) -> Builder {
        let stack_bytes = Some(bytes);
        Builder {
            stack_bytes,
            ..self
        }
    }

    fn system(&self) -> std::thread::Builder {
        let named = match &self.name {
            Some(name) => std::thread::Builder::new().name(name.clone()),
            None => std::thread::Builder::new(),
        };
        match self.stack_bytes {
            Some(bytes) => named.stack_size(bytes),
            None => named,
        }
    }

    fn simulated(&self) -> Option<Own> {
        let own = turn::own()?;
        own.point();
        Some(own.add(self.name.as_deref().unwrap_or("a thread")))
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// The system's.
    pub fn spawn<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let simulated = self.simulated();
        let system = self.system().spawn(whole(simulated.clone(), work));
        if let (Err(_), Some(refused)) = (&system, &simulated) {
            refused.never_begins();
        }
        let system = system?;
        Ok(JoinHandle { system, simulated })
    }

    /// Starts the thread in a scope.
    ///
    /// # Errors
    /// The system's.
    pub fn spawn_scoped<'scope, T: Send + 'scope>(
        self,
        scope: &Scope<'scope, '_>,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        let simulated = self.simulated();
        scope.threads.borrow_mut().extend(simulated.clone());
        let work = whole(simulated.clone(), work);
        let system = self.system().spawn_scoped(scope.system, work);
        if let (Err(_), Some(refused)) = (&system, &simulated) {
            refused.never_begins();
        }
        let system = system?;
        Ok(ScopedJoinHandle { system, simulated })
    }
}

// All that a thread does, from its first turn to its last.
fn whole<T>(
    simulated: Option<Own>,
    work: impl FnOnce() -> T,
) -> impl FnOnce() -> std::thread::Result<T> {
    move || {
        let Some(own) = simulated else {
            return Ok(work());
        };
        own.clone().enter();
        // Whoever joins the thread gets the panic.
        let outcome = catch_unwind(AssertUnwindSafe(work));
        own.leave();
        outcome
    }
}

impl Own {
    fn wait_for_end(&self) {
        let Some(own) = turn::own() else { return };
        own.point();
        while !self.is_ended() {
            own.wait("a thread", self.end_key(), None);
        }
    }
}

impl<T> JoinHandle<T> {
    /// Waits for the end of the thread.
    ///
    /// # Errors
    /// Its panic.
    pub fn join(self) -> std::thread::Result<T> {
        if let Some(simulated) = &self.simulated {
            simulated.wait_for_end();
        }
        self.system.join().and_then(|outcome| outcome)
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        match &self.simulated {
            Some(simulated) => {
                turn::point();
                simulated.is_ended()
            }
            None => self.system.is_finished(),
        }
    }

    /// The thread.
    pub fn thread(&self) -> &Thread {
        self.system.thread()
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the end of the thread.
    ///
    /// # Errors
    /// Its panic.
    pub fn join(self) -> std::thread::Result<T> {
        if let Some(simulated) = &self.simulated {
            simulated.wait_for_end();
        }
        self.system.join().and_then(|outcome| outcome)
    }
}

/// Runs `body`, and returns when the threads that it has started in the scope have ended too.
pub fn scope<'env, T>(body: impl for<'scope> FnOnce(&Scope<'scope, 'env>) -> T) -> T {
    std::thread::scope(|system| {
        let scope = Scope {
            system,
            threads: RefCell::default(),
        };
        // The system's scope would wait without giving up the turn, also after a panic.
        let outcome = catch_unwind(AssertUnwindSafe(|| body(&scope)));
        scope.threads.take().iter().for_each(Own::wait_for_end);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Waits for some time.
pub fn sleep(time: Duration) {
    match turn::own() {
        Some(own) => drop(own.wait("time", 0, Some(time))),
        None => std::thread::sleep(time),
    }
}

/// Lets other threads run.
pub fn yield_now() {
    match turn::own() {
        Some(own) => own.point(),
        None => std::thread::yield_now(),
    }
}
