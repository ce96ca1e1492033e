//! What every job must compute: the bits of one rank.

use crate::life::{self, Job, Record};
use crate::plan::{self, Saves};
use checkpoint::{FileSystem, Reader, digest};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use train::trainer::scalars;

/// The result of all steps.
#[derive(Debug)]
pub struct Reference {
    /// The bits of the losses, by step.
    pub losses: Vec<u64>,
    /// The digest of the last checkpoint.
    pub digest: String,
}

/// That of one rank, which trains outside any simulation, once.
pub fn reference() -> &'static Reference {
    static REFERENCE: OnceLock<Reference> = OnceLock::new();
    REFERENCE.get_or_init(|| {
        let root = tempfile::tempdir().unwrap();
        let job = Job {
            config: plan::config(),
            saves: Saves::InStep,
            every: 1,
            dir: root.path().join("checkpoints"),
            local: root.path().join("local"),
            disk: Arc::new(FileSystem),
            network: None,
            ends: None,
        };
        let recorder = Arc::new(Mutex::new(Record::default()));
        life::run(&job, &recorder).unwrap();
        let losses = recorder
            .lock()
            .unwrap()
            .losses
            .iter()
            .map(|(_, loss)| *loss)
            .collect();
        let digest = digest_of(&job.dir).unwrap();
        Reference { losses, digest }
    })
}

/// The digest of the newest checkpoint, or of this one.
///
/// # Errors
/// That it is damaged.
pub fn digest_of(path: &Path) -> Result<String, String> {
    let found = || -> train::Result<String> {
        let reader = Reader::open(path)?;
        reader.verify()?;
        Ok(digest(&reader, &scalars(&reader)?)?.digest.to_string())
    };
    found().map_err(|error| error.to_string())
}
