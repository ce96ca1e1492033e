//! The section `device`: choices about each rank's device.

use crate::{Error, Result};
use hal::{CollectiveBackend, DeviceSettings, EpiloguePlacement, SumOrder};
use parallel::Reproducible;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

crate::section! {
    /// Choices about each rank's device: three that change the numbers of a run, and its memory. A device without such a choice
    /// ignores the key: the CPU and simulated devices ignore the first three.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct DeviceConfig {
        /// The backend that runs the collectives: `library` (NCCL or RCCL) or `staged`.
        #[serde(with = "by_name")]
        pub collectives: CollectiveBackend,
        /// Where a bias, and GELU behind it, are computed: `fused` (in the matmul) or `separate`.
        #[serde(with = "by_name")]
        pub epilogues: EpiloguePlacement,
        /// The file of the fastest variant of each matmul, which the first step times and writes if it does not exist. A file of
        /// another version of the library, or of another device, is refused. Absent: the library chooses.
        pub matmul_choices: Option<PathBuf>,
        /// Bytes that each rank may allocate on its device; a run that needs one more ends with an error. Absent: all that
        /// the device has.
        pub memory_limit: Option<usize>,
    }
}

impl DeviceConfig {
    /// What is wrong with the values.
    ///
    /// # Errors
    /// [`Error::Setting`] for a file without a name, and for a limit of 0 bytes.
    pub fn check(&self) -> Result<()> {
        if self.memory_limit == Some(0) {
            let needed = "at least 1 byte, or no limit";
            return Err(Error::setting("device.memory_limit", 0, needed));
        }
        match &self.matmul_choices {
            Some(path) if path.file_name().is_none() => Err(Error::setting(
                "device.matmul_choices",
                format_args!("`{}`", path.display()),
                "the name of a file",
            )),
            _ => Ok(()),
        }
    }

    // What devices are opened with, in a run whose bits depend on what `reproducible` states.
    pub(super) fn settings(&self, reproducible: Reproducible) -> DeviceSettings {
        DeviceSettings {
            collectives: self.collectives,
            epilogues: self.epilogues,
            matmul_choices: self.matmul_choices.clone(),
            memory_limit: self.memory_limit,
            sums: match reproducible {
                Reproducible::Run => SumOrder::Device,
                Reproducible::Grid => SumOrder::Canonical,
            },
        }
    }
}

// Values of the seam, which knows no serde, by their words.
mod by_name {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::{fmt::Display, str::FromStr};

    pub(super) fn serialize<T: Display, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let word = String::deserialize(deserializer)?;
        word.parse()
            .map_err(|error| D::Error::custom(format_args!("device.{error}")))
    }
}
