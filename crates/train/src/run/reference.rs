//! The log-probabilities of the reference model: computed before a run's first step, and kept in its folder.

use super::Run;
use crate::{
    Error, Result,
    checkpoint::replace_file,
    trainer::{Trainer, disk_work},
};
use hal::files;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Little-endian f64: of the chosen and the rejected sequence of each pair, for training and then for validation.
const FILE: &str = "reference-log-probabilities.f64";

impl Run {
    /// The run with the log-probabilities that its folder holds, if it is resumed and its data needs them. Their checksum is in the
    /// data's fingerprint, which a resumed run compares.
    ///
    /// # Errors
    /// [`Error::Setting`] if they are not there, or are those of other data.
    pub(super) fn with_stored_reference(&self) -> Result<Run> {
        let mut run = self.clone();
        let (Some(from), Some(data)) = (&self.resume, self.data.preferences()) else {
            return Ok(run);
        };
        if data.reference().is_some() {
            return Ok(run);
        }
        let above = from.checkpoint.ancestors().skip(1).take(2);
        let mut folders = above.chain([&*self.dir]);
        let Some(path) = folders.find_map(file_in) else {
            let found = format!("no {FILE} in {}", self.dir.display());
            let needed = "the one that the run wrote before its first step";
            return Err(Error::setting("reference model", found, needed));
        };
        let most = 8 * data.num_sequences() as u64;
        let bytes = files::read(&path, most).map_err(Error::file(&path))?;
        let (numbers, _) = bytes.as_chunks::<8>();
        let numbers = numbers.iter().map(|bytes| f64::from_le_bytes(*bytes));
        match data.with_reference(numbers.collect()) {
            Some(data) => run.data = Arc::new(data),
            None => {
                let found = format!("{} with {} bytes", path.display(), bytes.len());
                return Err(Error::setting(
                    "reference model",
                    found,
                    format!("{most} bytes"),
                ));
            }
        }
        Ok(run)
    }

    /// The run with the log-probabilities of the model with which it begins, if its data needs them, and their file written.
    /// Collective.
    pub(super) fn with_reference(&self, trainer: &Trainer) -> Result<Run> {
        let mut run = self.clone();
        let Some(data) = self.data.preferences() else {
            return Ok(run);
        };
        let world = trainer.context().world();
        let numbers = match data.reference() {
            Some(known) => known.to_vec(),
            None => trainer.reference(data, |done| {
                world.beat(&format!("reference model, {:.0} %", 100.0 * done));
            })?,
        };
        let path = self.dir.join(FILE);
        // Any other file there is of a run that ended before its first checkpoint.
        let is_kept = self.resume.is_some() && path.exists();
        disk_work::all(world, || match world.rank() == 0 && !is_kept {
            true => {
                let bytes: Vec<u8> = numbers
                    .iter()
                    .flat_map(|number| number.to_le_bytes())
                    .collect();
                replace_file(&path, &bytes).map_err(Error::file(&path))
            }
            false => Ok(()),
        })?;
        if let Some(data) = data.with_reference(numbers) {
            run.data = Arc::new(data);
        }
        Ok(run)
    }
}

fn file_in(folder: &Path) -> Option<PathBuf> {
    let path = folder.join(FILE);
    path.is_file().then_some(path)
}
