//! Signals: each asks a run to end after its current step, with a checkpoint; a second Ctrl-C ends it at once.

use crate::{launcher, output, progress::Progress};
use hal::lock;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU},
    iterator::Signals,
};
use std::{
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};
use train::Stop;

/// Exit status of an interrupted program.
const INTERRUPTED: i32 = 130;

/// The signals that ask a run to stop. Schedulers announce the end of a job with SIGUSR1, SIGUSR2, SIGXCPU or SIGTERM.
const SIGNALS: [i32; 6] = [SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU];

/// A Ctrl-C that comes this soon after another signal is the same one: a shell, `timeout` and launchers signal a process and
/// its group.
const SAME: Duration = Duration::from_secs(1);

/// Makes [`SIGNALS`] stop the run; `and_then` is what it does after its current step, as the user reads it.
///
/// After the run its owner sets the returned stop too. From then on there is nothing to save, and any of them ends the
/// program at once.
pub(crate) fn watch(progress: Arc<Progress>, and_then: &'static str) -> Arc<Stop> {
    let screen = progress.clone();
    watch_with(
        move || {
            progress.say(&format!(
                "stopping after this step{and_then}; press Ctrl-C again to end at once"
            ));
        },
        move || screen.leave(),
    )
}

/// The same for a command without a screen: `says` what it does when it is asked, and how it `leaves` at a second Ctrl-C.
pub(crate) fn watch_plainly(says: &'static str, leave: fn()) -> Arc<Stop> {
    let say = move || output::note(&format!("{says}; press Ctrl-C again to end at once"));
    watch_with(say, leave)
}

/// What signals concern now.
struct Watched {
    stop: Arc<Stop>,
    say: Box<dyn Fn() + Send>,
    leave: Box<dyn Fn() + Send>,
    // The time of the first signal.
    first: Option<Instant>,
}

/// A run that continues in the surviving processes is watched again, by the same thread.
static WATCHED: Mutex<Option<Watched>> = Mutex::new(None);

fn watch_with(say: impl Fn() + Send + 'static, leave: impl Fn() + Send + 'static) -> Arc<Stop> {
    let stop = Arc::new(Stop::default());
    let watched = Watched {
        stop: stop.clone(),
        say: Box::new(say),
        leave: Box::new(leave),
        first: None,
    };
    if let Some(before) = lock(&WATCHED).replace(watched) {
        // Whoever asked the run to stop means the run that continues it.
        if before.first.is_some() {
            stop.ask();
        }
        return stop;
    }
    // Without a handler a signal ends the program as usual, which is no reason to refuse training.
    if let Ok(mut signals) = Signals::new(SIGNALS) {
        thread::spawn(move || {
            for signal in signals.forever() {
                if let Some(Watched {
                    stop,
                    say,
                    leave,
                    first,
                }) = &mut *lock(&WATCHED)
                    && on_signal(signal, first, stop, leave)
                {
                    say();
                }
            }
        });
    }
    stop
}

// Whether this signal is the first that asks the run to stop; `first` is the time of that one.
fn on_signal(signal: i32, first: &mut Option<Instant>, stop: &Stop, leave: &impl Fn()) -> bool {
    // A launcher that lost a process asks the others to end, and a job that has failed saves no checkpoint.
    if launcher::is_ending() {
        return false;
    }
    let is_over = first.is_none() && stop.asked();
    let is_second = signal == SIGINT && first.is_some_and(|first| first.elapsed() > SAME);
    if is_over || is_second {
        leave();
        std::process::exit(INTERRUPTED);
    }
    let is_first = first.is_none();
    if is_first {
        *first = Some(Instant::now());
        stop.ask();
    }
    is_first
}
