//! The digest of a step, while the step runs.

use super::{Trainer, stored::parts};
use crate::{
    Result,
    digest::{self, FORWARD, GRADIENTS, START, StepDigest, WEIGHTS},
};
use parallel::{Parameter, data::Part, digest::Hashed};

/// What this rank holds in the phases of a step so far.
pub(super) struct Watch {
    phases: Vec<(String, Vec<Hashed>)>,
}

impl Watch {
    /// Begins to watch step `step`, counted from 0, if its digest is due. On a device without values there is nothing to see.
    ///
    /// # Errors
    /// Those of reading the device.
    pub(super) fn begin(trainer: &Trainer, step: u64) -> Result<Option<Watch>> {
        if !Watch::is_due(trainer, step) {
            return Ok(None);
        }
        let set = trainer.pipeline.next_parameters();
        // What is recorded once and repeated cannot be looked at in between.
        if !trainer.options.graph {
            set.observe();
        }
        let start = (START.into(), set.hashes(Part::Values)?);
        Ok(Some(Watch {
            phases: vec![start],
        }))
    }

    /// Whether the digest of step `step`, counted from 0, is due.
    pub(super) fn is_due(trainer: &Trainer, step: u64) -> bool {
        let every = trainer.options.digest_every;
        let sees = trainer.context.device().capabilities().holds_values;
        every > 0 && (step + 1).is_multiple_of(every) && sees
    }

    /// After backward.
    ///
    /// # Errors
    /// Those of reading the device.
    pub(super) fn gradients(&mut self, trainer: &Trainer) -> Result<()> {
        let set = trainer.parameters();
        if !trainer.options.graph {
            self.phases.push((FORWARD.into(), set.take_observed()));
        }
        let gradients = set.hashes(Part::Gradient)?;
        self.phases.push((GRADIENTS.into(), gradients));
        Ok(())
    }

    /// After the update.
    ///
    /// # Errors
    /// Those of reading the device.
    pub(super) fn state(&mut self, trainer: &Trainer) -> Result<()> {
        let set = trainer.parameters();
        self.phases
            .push((WEIGHTS.into(), set.hashes(Part::Weights)?));
        for (prefix, part) in parts(set.options()) {
            if part != Part::Weights {
                let phase = prefix.trim_end_matches('/').to_owned();
                self.phases.push((phase, set.hashes(part)?));
            }
        }
        Ok(())
    }

    /// The digest, which all ranks make together. Collective.
    ///
    /// # Errors
    /// [`Error::Replicas`](crate::Error::Replicas); [`Error::Parallel`](crate::Error::Parallel) from the exchange.
    pub(super) fn finish(self, trainer: &Trainer, step: u64) -> Result<StepDigest> {
        let declared = trainer.pipeline.declared().iter().map(Parameter::name);
        let declared = declared.zip(0..).collect();
        digest::gather(&trainer.context, step + 1, &self.phases, &declared)
    }
}
