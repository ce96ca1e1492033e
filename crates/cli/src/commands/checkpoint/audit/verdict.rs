//! What an audit finds.

use crate::{
    failure::{Failure, Outcome},
    numbers::grouped,
    output,
};
use serde::Serialize;
use std::path::Path;
use train::{
    Config,
    checkpoint::{DiffReport, Digest, Reader, diff, digest},
    run::audit::Disagreement,
    trainer::scalars,
};

/// The result of an audit.
#[derive(Serialize)]
pub(super) struct Verdict<'a> {
    confirmed: bool,
    from: &'a Path,
    from_step: u64,
    checkpoint: &'a Path,
    step: u64,
    grid: String,
    /// What the checkpoint states otherwise; the steps are then not executed.
    disagreements: Vec<Disagreement>,
    /// How its state differs (`b`) from that of the steps (`a`).
    differences: Option<DiffReport>,
    /// The digest of its state, if that is confirmed.
    digest: Option<Digest>,
}

impl Verdict<'_> {
    /// The verdict on a checkpoint, before anything is compared.
    pub(super) fn new<'a>(from: &'a Reader, to: &'a Reader, config: &Config) -> Verdict<'a> {
        Verdict {
            confirmed: false,
            from: from.path(),
            from_step: from.step(),
            checkpoint: to.path(),
            step: to.step(),
            grid: config.parallel.grid.to_string(),
            disagreements: Vec::new(),
            differences: None,
            digest: None,
        }
    }

    /// Refuted by what the checkpoint states.
    pub(super) fn disagreeing(self, disagreements: Vec<Disagreement>) -> Self {
        Verdict {
            disagreements,
            ..self
        }
    }

    /// Confirmed or refuted by its state.
    pub(super) fn compared(self, replayed: &Reader, to: &Reader) -> Outcome<Self> {
        let [needed, found] = [scalars(replayed)?, scalars(to)?];
        let report = diff([replayed, to], [&needed, &found]).map_err(train::Error::from)?;
        if !report.equal {
            let differences = Some(report);
            return Ok(Verdict {
                differences,
                ..self
            });
        }
        let digest = digest(to, &found).map_err(train::Error::from)?.digest;
        Ok(Verdict {
            confirmed: true,
            digest: Some(digest),
            ..self
        })
    }

    /// Prints it, and fails if the checkpoint is refuted.
    pub(super) fn end(self, json: bool) -> Outcome {
        match (json, &self.differences) {
            (true, _) => output::json(&self)?,
            (false, Some(report)) => output::result(report.to_string().trim_end())?,
            (false, None) => {}
        }
        match self.confirmed {
            true if json => Ok(()),
            true => output::result(&self.sentence()),
            false => Err(Failure::run(self.sentence())),
        }
    }

    fn sentence(&self) -> String {
        let (from, to) = (self.from.display(), self.checkpoint.display());
        let [step, from_step] = [self.step, self.from_step].map(grouped);
        let again = format!(
            "executed again from step {from_step} ({from}) on grid {}",
            self.grid
        );
        if let Some(digest) = self.digest {
            return format!("confirmed: step {step} ({to}), SHA-256 {digest}, {again}");
        }
        if let Some((first, others)) = self.disagreements.split_first() {
            let more = match others.len() {
                0 => String::new(),
                more => format!(", and {more} more differ"),
            };
            return format!(
                "refuted: step {step} ({to}) does not follow from step {from_step} ({from}): {first}{more}"
            );
        }
        let report = self.differences.as_ref();
        let counts = report.map(DiffReport::counts).unwrap_or_default();
        let first = report.and_then(DiffReport::first);
        let first = first.map_or(String::new(), |(place, values)| {
            format!(
                ", the first in {place}: found {}, needs {}",
                values.b, values.a
            )
        });
        format!("refuted: step {step} ({to}) differs from the same step {again}: {counts}{first}")
    }
}
