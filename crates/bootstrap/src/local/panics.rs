//! The message and location of a rank's panic.
//!
//! A caught panic carries its message but not its location, which only the process's panic hook learns. This
//! module puts one hook in front of the existing hook; threads that are not ranks pass through it unchanged.

use std::{
    any::Any,
    backtrace::{Backtrace, BacktraceStatus},
    cell::RefCell,
    panic::{self, AssertUnwindSafe, PanicHookInfo},
    sync::Once,
    thread,
};

thread_local! {
    /// In a rank's thread, the known facts of its last panic.
    static WATCHED: RefCell<Option<Watched>> = const { RefCell::new(None) };
}

struct Watched {
    rank: usize,
    said: Option<String>,
}

/// Installs the hook, once per process.
pub(crate) fn install_hook() {
    static INSTALLED: Once = Once::new();
    // A panicking thread may not replace hooks; messages then lack a location.
    if !thread::panicking() {
        INSTALLED.call_once(|| {
            let previous = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                if !note(info) {
                    previous(info);
                }
            }));
        });
    }
}

/// Runs a rank's work, and returns the message if it panics.
pub(crate) fn watch<R>(rank: usize, work: impl FnOnce() -> R) -> Result<R, String> {
    WATCHED.set(Some(Watched { rank, said: None }));
    // Nothing of the work is used again after a panic: its captures end with the thread.
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    let said = WATCHED.take().and_then(|watched| watched.said);
    outcome.map_err(|payload| {
        let said = said.unwrap_or_else(|| format!("panicked: {}", message(&*payload)));
        // A payload may panic in its own Drop, and nothing is left to catch that.
        std::mem::forget(payload);
        said
    })
}

/// Keeps and prints the message of a rank's panic; `false` if this thread is not a rank.
fn note(info: &PanicHookInfo<'_>) -> bool {
    let noted = WATCHED.try_with(|watched| {
        let mut watched = watched.try_borrow_mut().ok()?;
        let watched = watched.as_mut()?;
        let said = words(info);
        eprintln!("rank {} {said}", watched.rank);
        watched.said = Some(said);
        Some(())
    });
    if !matches!(noted, Ok(Some(()))) {
        return false;
    }
    // Captured only if RUST_BACKTRACE requests it.
    let trace = Backtrace::capture();
    if trace.status() == BacktraceStatus::Captured {
        eprintln!("{trace}");
    }
    true
}

fn words(info: &PanicHookInfo<'_>) -> String {
    match info.location() {
        Some(place) => format!("panicked at {place}: {}", message(info.payload())),
        None => format!("panicked: {}", message(info.payload())),
    }
}

fn message(payload: &(dyn Any + Send)) -> &str {
    match (
        payload.downcast_ref::<&str>(),
        payload.downcast_ref::<String>(),
    ) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "no message",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(work: fn()) -> String {
        install_hook();
        watch(0, work).unwrap_err()
    }

    #[test]
    fn a_panic_is_told_with_its_place() {
        let said = said(|| panic!("shape {} is odd", 3));
        assert!(
            said.starts_with("panicked at ") && said.contains("panics.rs:"),
            "{said}"
        );
        assert!(said.ends_with(": shape 3 is odd"), "{said}");
    }

    #[test]
    fn a_panic_that_the_work_caught_itself_is_no_failure() {
        install_hook();
        let outcome = watch(0, || panic::catch_unwind(|| panic!("caught")).is_err());
        assert_eq!(outcome, Ok(true));
    }

    #[test]
    fn other_payloads_have_no_message() {
        assert!(said(|| panic::panic_any(7_u8)).ends_with(": no message"));
    }
}
