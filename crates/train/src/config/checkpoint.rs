//! The section `checkpoint`: copies of the run's checkpoints outside its folder.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::time::Duration;

crate::section! {
    /// Copies of the run's checkpoints outside its folder. Which stay there is what `training.keep_checkpoints`, `keep_every` and
    /// `keep_best` say of the folder.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct CheckpointConfig {
        /// The place to which complete checkpoints are copied during the run: `s3://bucket/prefix`, `gs://bucket/prefix`,
        /// `az://container/prefix` or `file:///folder`, in a build with `--features object-store`. Each run needs a place of its own.
        /// Credentials come from the environment: `AWS_*`, `GOOGLE_*`, `AZURE_*`. Absent, or empty: no copies.
        pub store: Option<String>,
        /// The most seconds that a copy may take, and that the end of a run waits for the last.
        pub store_timeout_s: u64,
    }
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        CheckpointConfig {
            store: None,
            store_timeout_s: 1800,
        }
    }
}

impl CheckpointConfig {
    /// The URL of the store, and the longest time that a copy may take; nothing if there are no copies.
    pub fn stored(&self) -> Option<(&str, Duration)> {
        let store = self.store.as_deref().filter(|store| !store.is_empty());
        store.map(|store| (store, Duration::from_secs(self.store_timeout_s)))
    }

    /// What is wrong with the values.
    ///
    /// # Errors
    /// [`Error::Setting`] for a time of 0 s, or of more than a week.
    pub fn check(&self) -> Result<()> {
        let (key, found) = ("checkpoint.store_timeout_s", self.store_timeout_s);
        match found {
            1..=604_800 => Ok(()),
            _ => Err(Error::setting(key, found, "1 to 604800 s")),
        }
    }
}
