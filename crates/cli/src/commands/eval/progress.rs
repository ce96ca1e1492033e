//! How much of a file is done: a bar on a terminal; elsewhere a line for each tenth.

use crate::{numbers::grouped, output};
use indicatif::{ProgressBar, ProgressStyle};
use std::{
    cell::Cell,
    io::{IsTerminal, stderr},
};

/// The items of a file, of which some are done.
pub(super) struct ItemBar {
    what: &'static str,
    total: usize,
    shows: bool,
    done: Cell<usize>,
    bar: Option<ProgressBar>,
}

impl ItemBar {
    /// Nothing is done yet; it shows only if it `shows`.
    pub(super) fn new(what: &'static str, total: usize, shows: bool) -> ItemBar {
        let bar = (shows && output::speaks() && stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template(
                "{prefix} {bar:24} {human_pos}/{human_len}, {eta} left",
            );
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::new(total as u64).with_style(style.progress_chars("=> "));
            bar.with_prefix(what)
        });
        ItemBar {
            what,
            total,
            shows,
            done: Cell::new(0),
            bar,
        }
    }

    /// Adds items that are done.
    pub(super) fn add(&self, items: usize) {
        let before = self.done.replace(self.done.get() + items);
        let tenth = |done: usize| 10 * done / self.total.max(1);
        match &self.bar {
            Some(bar) => bar.inc(items as u64),
            None if self.shows && tenth(self.done.get()) > tenth(before) => output::note(&format!(
                "{} of {} {}",
                grouped(self.done.get() as u64),
                grouped(self.total as u64),
                self.what
            )),
            None => {}
        }
    }

    /// Removes the bar.
    pub(super) fn leave(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
