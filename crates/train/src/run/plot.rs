//! `loss.svg`, drawn by a thread beside the steps.

use crate::{
    Error, Result,
    metrics::{Follower, Losses, Record},
};
use std::{
    mem,
    path::{Path, PathBuf},
    thread::{Builder, JoinHandle},
};

/// Draws the losses of a run on a thread, one plot at a time.
#[derive(Debug)]
pub(super) enum LossPlot {
    /// Between two plots.
    Idle(Curve),
    /// While one is drawn.
    Drawing(JoinHandle<(Curve, Result<()>)>),
    /// A thread has panicked, or could not be started.
    Lost,
}

/// What was read of a run's records. Each plot reads those that are new: a run may have millions.
#[derive(Debug)]
pub(super) struct Curve {
    path: PathBuf,
    records: Follower,
    losses: Losses,
}

impl LossPlot {
    /// Of the run in this folder.
    pub(super) fn new(dir: &Path) -> LossPlot {
        LossPlot::Idle(Curve {
            path: dir.join("loss.svg"),
            records: Follower::new(&dir.join("metrics.jsonl")),
            losses: Losses::default(),
        })
    }

    /// Begins to draw the run's records, unless the plot before is not drawn yet: a later one shows these records too. Returns
    /// what the plot before met.
    ///
    /// # Errors
    /// As [`finish`](LossPlot::finish); [`Error::Io`] if no thread can be started.
    pub(super) fn begin(&mut self, title: String) -> Result<()> {
        if matches!(self, LossPlot::Drawing(thread) if !thread.is_finished()) {
            return Ok(());
        }
        let before = self.finish();
        if let LossPlot::Idle(mut curve) = mem::replace(self, LossPlot::Lost) {
            let thread = Builder::new().name("plot".into());
            *self = LossPlot::Drawing(thread.spawn(move || {
                let drawn = curve.draw(&title);
                (curve, drawn)
            })?);
        }
        before
    }

    /// Waits for the plot that is being drawn, if there is one.
    ///
    /// # Errors
    /// [`Error::Metrics`] for records that cannot be read and a plot that cannot be written.
    pub(super) fn finish(&mut self) -> Result<()> {
        let thread = match mem::replace(self, LossPlot::Lost) {
            LossPlot::Drawing(thread) => thread,
            other => {
                *self = other;
                return Ok(());
            }
        };
        let (curve, drawn) = thread.join().map_err(|_| {
            let reason = "a bug: the thread of the plot has panicked";
            Error::from(std::io::Error::other(reason))
        })?;
        *self = LossPlot::Idle(curve);
        drawn
    }
}

impl Curve {
    fn draw(&mut self, title: &str) -> Result<()> {
        let losses = &mut self.losses;
        self.records
            .for_new_lines(|record: Record| losses.add(&record))?;
        Ok(self.losses.plot(&self.path, title)?)
    }
}
