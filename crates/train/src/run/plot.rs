//! `loss.svg`, drawn by a thread beside the steps.

use crate::{
    Error, Result,
    metrics::{Follower, Losses, Record},
};
use std::{
    path::{Path, PathBuf},
    thread::{Builder, JoinHandle},
};

/// Draws the losses of a run on a thread, one plot at a time.
#[derive(Debug)]
pub(super) struct LossPlot {
    dir: PathBuf,
    // Absent while a thread has it, and after one that has panicked: the next plot reads all records again.
    curve: Option<Curve>,
    drawing: Option<JoinHandle<(Curve, Result<()>)>>,
}

/// What was read of a run's records. Each plot reads those that are new: a run may have millions.
#[derive(Debug)]
struct Curve {
    records: Follower,
    losses: Losses,
}

impl LossPlot {
    /// Of the run in this folder.
    pub(super) fn new(dir: &Path) -> LossPlot {
        LossPlot {
            dir: dir.to_owned(),
            curve: None,
            drawing: None,
        }
    }

    /// Begins to draw the run's records, unless the plot before is not drawn yet: a later one shows these records too. Returns
    /// what the plot before met.
    ///
    /// # Errors
    /// As [`finish`](LossPlot::finish); [`Error::Io`] if no thread can be started.
    pub(super) fn begin(&mut self, title: String) -> Result<()> {
        if self
            .drawing
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
        {
            return Ok(());
        }
        let before = self.finish();
        let mut curve = self.curve.take().unwrap_or_else(|| Curve::new(&self.dir));
        let path = self.dir.join("loss.svg");
        let thread = Builder::new().name("plot".into());
        self.drawing = Some(thread.spawn(move || {
            let drawn = curve.draw(&path, &title);
            (curve, drawn)
        })?);
        before
    }

    /// Waits for the plot that is being drawn, if there is one.
    ///
    /// # Errors
    /// [`Error::Metrics`] for records that cannot be read and a plot that cannot be written.
    pub(super) fn finish(&mut self) -> Result<()> {
        let Some(thread) = self.drawing.take() else {
            return Ok(());
        };
        let (curve, drawn) = thread.join().map_err(|_| {
            let reason = "a bug: the thread of the plot has panicked";
            Error::from(std::io::Error::other(reason))
        })?;
        self.curve = Some(curve);
        drawn
    }
}

impl Curve {
    fn new(dir: &Path) -> Curve {
        Curve {
            records: Follower::new(&dir.join("metrics.jsonl")),
            losses: Losses::default(),
        }
    }

    fn draw(&mut self, path: &Path, title: &str) -> Result<()> {
        let losses = &mut self.losses;
        self.records
            .for_new_lines(|record: Record| losses.add(&record))?;
        Ok(self.losses.plot(path, title)?)
    }
}
