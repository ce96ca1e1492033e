//! What a run does between steps that is not always due: samples, digests, and comparisons of the ranks' speeds.

use super::{Session, is_due};
use crate::{
    Result,
    run::{PATIENCE, SampleRecord},
    trainer::Trainer,
};

impl Session<'_> {
    // A text of the model after the steps so far.
    pub(super) fn sample(&mut self, trainer: &Trainer) -> Result<Option<SampleRecord>> {
        let Some(text) = &self.text else {
            return Ok(None);
        };
        let world = trainer.context().world();
        world.beat(&format!("sample after step {}", trainer.next_step()));
        let sample = text.write(trainer, self.run, self.stop)?;
        if let Some(sample) = &sample {
            let written = self.files.sample(sample);
            self.tolerate(written)?;
        }
        Ok(sample)
    }

    pub(super) fn write_digest(&mut self, trainer: &Trainer) -> Result<()> {
        let Some(digest) = trainer.digest() else {
            return Ok(());
        };
        let written = self.files.digest(digest);
        self.tolerate(written)?;
        if !std::mem::replace(&mut self.has_told_copies, true) && self.files.has_digests() {
            self.observer.digest(digest);
        }
        Ok(())
    }

    // Compares the speeds of the ranks after a step, if that is due and several ranks compute.
    pub(super) fn measure_speeds(&mut self, trainer: &Trainer, step: u64) -> Result<()> {
        let (training, context) = (&self.run.config.training, trainer.context());
        let (world, device) = (context.world(), context.device());
        if !is_due(step, training.straggler_every)
            || world.size() == 1
            || !device.capabilities().holds_values
        {
            return Ok(());
        }
        let below = training.straggler_below;
        let record = self.stragglers.measure(world, device, step, below)?;
        if !self.is_first {
            return Ok(());
        }
        for slow in record.slow.iter().filter(|slow| slow.times == PATIENCE) {
            self.observer.straggler(slow, &record);
        }
        let written = self.files.speeds(&record);
        self.tolerate(written).map(drop)
    }
}
