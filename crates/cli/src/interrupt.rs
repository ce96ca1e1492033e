//! Ctrl-C: the first one ends a run after its current step, the second one at once.

use crate::{launcher, progress::Progress};
use std::sync::Arc;
use train::Stop;

/// Exit status of an interrupted program.
const INTERRUPTED: i32 = 130;

/// Makes Ctrl-C, and the signals that ask a program to end, stop the run.
///
/// After the run its owner sets the returned stop too. From then on there is nothing to save, and Ctrl-C ends
/// the program at once.
pub(crate) fn watch(progress: Arc<Progress>) -> Arc<Stop> {
    let stop = Arc::new(Stop::default());
    let asked = stop.clone();
    // Without a handler Ctrl-C ends the program as usual, which is no reason to refuse training.
    ctrlc::set_handler(move || on_signal(&asked, &progress)).ok();
    stop
}

fn on_signal(stop: &Stop, progress: &Progress) {
    // A launcher that lost a process asks the others to end, and a job that has failed saves no checkpoint.
    if launcher::is_ending() {
        return;
    }
    if stop.asked() {
        progress.leave();
        std::process::exit(INTERRUPTED);
    }
    stop.ask();
    progress
        .say("stopping after this step and saving a checkpoint; press Ctrl-C again to end at once");
}
