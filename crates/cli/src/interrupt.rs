//! Ctrl-C: the first one ends a run after its step, the second one at once.

use crate::{launcher, progress::Progress};
use std::sync::Arc;
use train::Stop;

/// Exit status of a program that an interrupt ended.
const INTERRUPTED: i32 = 130;

/// Has Ctrl-C, and the signals that ask a program to end, ask the run to stop.
///
/// Once the run is over its owner asks too: from then on there is nothing to save, and Ctrl-C ends the program at once.
pub(crate) fn watch(progress: Arc<Progress>) -> Arc<Stop> {
    let stop = Arc::new(Stop::default());
    let asked = stop.clone();
    // Without a handler Ctrl-C ends the program as usual, which is no reason not to train.
    ctrlc::set_handler(move || on_signal(&asked, &progress)).ok();
    stop
}

fn on_signal(stop: &Stop, progress: &Progress) {
    // The launcher that lost a process asks the others to end; a job that has failed takes no checkpoint.
    if launcher::is_ending() {
        return;
    }
    if stop.asked() {
        progress.leave();
        std::process::exit(INTERRUPTED);
    }
    stop.ask();
    progress.say("stopping after this step, with a checkpoint; Ctrl-C again ends at once");
}
