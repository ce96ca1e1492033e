//! `loss.svg`, drawn by a thread beside the steps.

use crate::{Error, Result, metrics};
use std::{
    path::Path,
    thread::{Builder, JoinHandle},
};

/// Draws the losses of a run on a thread, one plot at a time.
#[derive(Debug, Default)]
pub(super) struct LossPlot(Option<JoinHandle<Result<()>>>);

impl LossPlot {
    /// Begins to draw the records in a run's folder, unless the plot before is not drawn yet: a later one shows these records
    /// too. Returns what the plot before met.
    ///
    /// # Errors
    /// As [`finish`](LossPlot::finish); [`Error::Io`] if no thread can be started.
    pub(super) fn begin(&mut self, dir: &Path, title: String) -> Result<()> {
        if self.0.as_ref().is_some_and(|before| !before.is_finished()) {
            return Ok(());
        }
        let before = self.finish();
        let dir = dir.to_owned();
        let thread = Builder::new().name("plot".into());
        self.0 = Some(thread.spawn(move || draw(&dir, &title))?);
        before
    }

    /// Waits for the plot that is being drawn, if there is one.
    ///
    /// # Errors
    /// [`Error::Metrics`] for records that cannot be read and a plot that cannot be written.
    pub(super) fn finish(&mut self) -> Result<()> {
        let Some(thread) = self.0.take() else {
            return Ok(());
        };
        let panicked = |_| {
            let reason = "a bug: the thread of the plot has panicked";
            Err(Error::from(std::io::Error::other(reason)))
        };
        thread.join().unwrap_or_else(panicked)
    }
}

fn draw(dir: &Path, title: &str) -> Result<()> {
    let records = metrics::read(&dir.join("metrics.jsonl"))?;
    Ok(metrics::loss_plot(&dir.join("loss.svg"), &records, title)?)
}
