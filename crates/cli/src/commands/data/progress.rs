//! A bar of bytes on a terminal; elsewhere nothing.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};

/// How much of a number of bytes is done.
pub(super) struct ByteBar(Option<ProgressBar>);

impl ByteBar {
    /// A bar, if there is a terminal; `what` stands before it.
    pub(super) fn new(what: &'static str, total: u64) -> ByteBar {
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(
                "{prefix} {bar:24} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}, {eta} left",
            );
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::new(total).with_style(style.progress_chars("=> "));
            bar.with_prefix(what)
        });
        ByteBar(bar)
    }

    /// Adds bytes that are done.
    pub(super) fn add(&self, bytes: u64) {
        if let Some(bar) = &self.0 {
            bar.inc(bytes);
        }
    }

    /// Removes the bar.
    pub(super) fn leave(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
