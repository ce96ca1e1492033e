//! Checkpoints of a run, those on the nodes' own disks, and the copies in its store.

use super::{Session, is_dispensable};
use crate::{
    Result,
    checkpoint::{FileSystem, prune},
    run::{
        StoreCopy, StoreReport,
        copies::{CopyJob, StoreCopies},
    },
    store,
    trainer::{Attached, CheckpointDone, Trainer, disk_work},
};
use bootstrap::World;

impl Session<'_> {
    // Begins the checkpoint of the steps done so far, and waits for it if asked to.
    pub(super) fn checkpoint(&mut self, trainer: &Trainer, waits: bool) -> Result<()> {
        let world = trainer.context().world();
        world.beat(&format!("checkpoint of step {}", trainer.next_step()));
        let attached = Attached {
            validation_loss: self.last.as_ref().and_then(|last| last.val_loss),
            best: self.best,
            ..self.run.attached()?
        };
        let before = self.writer.begin(trainer, &attached)?;
        self.completed(before)?;
        match waits {
            true => self.complete(),
            false => Ok(()),
        }
    }

    /// Waits for the checkpoint that is being written, if there is one, and for the plot of all records.
    ///
    /// # Errors
    /// As [`CheckpointWriter::finish`](crate::trainer::CheckpointWriter::finish).
    pub(in crate::run) fn complete(&mut self) -> Result<()> {
        let plotted = self.plot.finish();
        self.tolerate(plotted)?;
        let done = self.writer.finish()?;
        self.completed(done)?;
        let plotted = self.plot.finish();
        self.tolerate(plotted).map(drop)
    }

    // A local checkpoint that fails, for lack of room on a node, does not end the run. The next one is attempted as usual.
    pub(super) fn save_locally(&mut self, trainer: &Trainer, is_saved: bool) -> Result<()> {
        let Some(local) = &mut self.local else {
            return Ok(());
        };
        match local.after_step(trainer, self.run, is_saved) {
            Ok(None) => Ok(()),
            Ok(Some(done)) => {
                if self.is_first {
                    self.observer.local_checkpoint(&done);
                }
                self.has_local_failed = false;
                Ok(())
            }
            Err(error) if self.has_local_failed && is_dispensable(&error) => Ok(()),
            Err(error) => {
                self.has_local_failed = true;
                self.tolerate::<()>(Err(error)).map(drop)
            }
        }
    }

    pub(super) fn completed(&mut self, done: Option<CheckpointDone>) -> Result<()> {
        let Some(done) = done else { return Ok(()) };
        if self.is_first {
            self.observer.checkpoint(&done);
            let grid = self.run.config.parallel.grid;
            let title = format!("{}, grid {grid}", self.run.data_name());
            let plotted = self.plot.begin(title);
            self.tolerate(plotted)?;
        }
        self.checkpoint = Some(done.path);
        if let Some(copies) = &self.copies {
            copies.wake();
        }
        Ok(())
    }

    // A rank that runs again alone has no checkpoints to copy.
    pub(super) fn open_store(&self, first_step: u64) -> Result<Option<StoreCopies>> {
        let Some((url, timeout)) = self.run.config.checkpoint.stored() else {
            return Ok(None);
        };
        StoreCopies::start(CopyJob {
            store: store::open(url)?,
            dir: self.run.dir.join("checkpoints"),
            retention: self.retention,
            held: self.writer.held(),
            first_step,
            timeout,
        })
        .map(Some)
    }

    pub(super) fn report_copies(&self, news: Vec<Result<StoreCopy>>) -> Result<()> {
        for end in news {
            match end {
                Ok(copy) => self.observer.stored(&copy),
                Err(error) => drop(self.tolerate::<()>(Err(error))?),
            }
        }
        Ok(())
    }

    /// Waits for the copies to the run's store, as long as one may take. Collective.
    ///
    /// # Errors
    /// Those of the exchange.
    pub(in crate::run) fn finish_copies(&mut self, trainer: &Trainer) -> Result<()> {
        let Some((url, most)) = self.run.config.checkpoint.stored() else {
            return Ok(());
        };
        let copies = self.copies.take();
        if copies.is_some() {
            self.observer.waits_for_store(url, most);
        }
        let (dir, retention) = (self.run.dir.join("checkpoints"), self.retention);
        let finished = disk_work::all(trainer.context().world(), || {
            let finished = copies.map(StoreCopies::finish);
            if finished.is_some() {
                // What was held while it was copied. If the disk refuses, the next run removes it.
                let _ = prune(&FileSystem, &dir, &retention);
            }
            Ok(finished)
        })?;
        if let Some((news, report)) = finished {
            self.report_copies(news)?;
            self.stored = Some(report);
        }
        Ok(())
    }
}

// What rank 0 has copied, on every rank. Collective.
pub(super) fn told_report(
    world: &World,
    stored: Option<StoreReport>,
) -> Result<Option<StoreReport>> {
    let own = || Ok(serde_json::to_vec(&stored).map_err(std::io::Error::from)?);
    let text = disk_work::told(world, 0, own)?;
    Ok(serde_json::from_slice(&text).map_err(std::io::Error::from)?)
}
