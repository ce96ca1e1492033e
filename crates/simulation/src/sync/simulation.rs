//! Runs simulations.

use super::core::{Halt, Settings};
use super::turn::{Own, Shared};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The time that threads have after the body.
const AFTER: Duration = Duration::from_secs(60);

/// How a simulation has ended.
#[derive(Debug)]
pub struct Outcome<T> {
    /// What its body returned, the text of its panic, or why it did not end.
    pub result: Result<Result<T, String>, Halt>,
    /// A hash of who had the turn, and when.
    pub trace: u64,
    /// The faults that have come.
    pub num_faults: usize,
    /// The points that its threads have passed.
    pub points: u64,
    /// The virtual time that has passed until the body returned, or all was over.
    pub time: Duration,
    /// Whether this process can run other simulations. One that has halted may have left locks behind, for ever.
    pub leaves_no_lock: bool,
}

/// Runs `body` as the first thread of a simulation, that of process 0. Threads that it leaves behind run for another minute, and then
/// never again.
///
/// # Panics
/// If the system refuses a thread.
pub fn run<T: Send + 'static>(
    settings: Settings,
    body: impl FnOnce() -> T + Send + 'static,
) -> Outcome<T> {
    let shared = Shared::new(settings);
    let thread = shared.core().add("the launcher".into(), 0);
    // It has the first turn.
    let own = Own::new(shared.clone(), thread);
    let returned = Arc::new(Mutex::new(None));
    let work = {
        let returned = returned.clone();
        move || {
            own.clone().enter();
            let outcome = catch_unwind(AssertUnwindSafe(body)).map_err(|panic| text(&*panic));
            let time = own.core().now();
            *returned.lock().unwrap_or_else(PoisonError::into_inner) = Some((outcome, time));
            // Threads that a job has left behind may hold locks of the whole process, and get time to give them back.
            own.wait("the others", usize::MAX, Some(AFTER));
            // Nobody has the turn from here on.
            own.shared().end();
        }
    };
    let launcher = std::thread::Builder::new().spawn(work);
    drop(launcher.expect("a thread for the launcher"));
    shared.wait_until_over();
    let core = shared.core();
    let returned = returned
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let (result, time) = match (returned, &core.halted) {
        (Some((outcome, time)), _) => (Ok(outcome), time),
        (None, Some(halt)) => (Err(halt.clone()), core.now()),
        (None, None) => unreachable!("a simulation ends with its body or halts"),
    };
    Outcome {
        result,
        trace: core.trace(),
        num_faults: core.num_faults(),
        points: core.points(),
        time,
        leaves_no_lock: core.leaves_no_lock(),
    }
}

fn text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message").to_owned()
}
