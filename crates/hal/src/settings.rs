//! Choices that change a device's numbers. They come from a run's configuration, so that the run records them.

use crate::{Error, Result};
use std::{fmt, path::PathBuf, str::FromStr};

/// How a device computes where it has a choice. A device without that choice ignores the field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeviceSettings {
    /// The backend that runs the collectives.
    pub collectives: CollectiveBackend,
    /// Where a bias, and GELU behind it, are computed.
    pub epilogues: EpiloguePlacement,
    /// The file that holds the fastest variant of each matmul. If it does not exist, the first step times the variants
    /// and the first rank writes it. Without a file every matmul runs as it is stored.
    pub matmul_choices: Option<PathBuf>,
}

/// The backend that runs the collectives. Written as `library` or `staged`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CollectiveBackend {
    /// The vendor's own: NCCL or RCCL.
    #[default]
    Library,
    /// Device copies and kernels between ranks of this process: for several ranks on one device, which the libraries
    /// refuse, and for machines without them. Slow, and never chosen silently.
    Staged,
}

/// Where a bias, and GELU behind it, are computed. Written as `fused` or `separate`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EpiloguePlacement {
    /// In the matmul where the vendor's library takes them, and by kernels elsewhere.
    #[default]
    Fused,
    /// Always by kernels.
    Separate,
}

impl CollectiveBackend {
    /// Every backend.
    pub const ALL: [CollectiveBackend; 2] = [CollectiveBackend::Library, CollectiveBackend::Staged];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            CollectiveBackend::Library => "library",
            CollectiveBackend::Staged => "staged",
        }
    }
}

impl EpiloguePlacement {
    /// Both placements.
    pub const ALL: [EpiloguePlacement; 2] = [EpiloguePlacement::Fused, EpiloguePlacement::Separate];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            EpiloguePlacement::Fused => "fused",
            EpiloguePlacement::Separate => "separate",
        }
    }
}

impl fmt::Display for CollectiveBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for EpiloguePlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for CollectiveBackend {
    type Err = Error;

    /// Reads `library` or `staged`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another word.
    fn from_str(text: &str) -> Result<Self> {
        let mut all = CollectiveBackend::ALL.into_iter();
        all.find(|backend| backend.name() == text).ok_or_else(|| {
            Error::invalid(
                "collectives",
                format!("found `{text}`"),
                "library or staged",
            )
        })
    }
}

impl FromStr for EpiloguePlacement {
    type Err = Error;

    /// Reads `fused` or `separate`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another word.
    fn from_str(text: &str) -> Result<Self> {
        let mut all = EpiloguePlacement::ALL.into_iter();
        all.find(|placement| placement.name() == text)
            .ok_or_else(|| {
                Error::invalid("epilogues", format!("found `{text}`"), "fused or separate")
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_for_choices() {
        for backend in CollectiveBackend::ALL {
            assert_eq!(backend.to_string().parse(), Ok(backend));
        }
        for placement in EpiloguePlacement::ALL {
            assert_eq!(placement.to_string().parse(), Ok(placement));
        }
        let error = "stage".parse::<CollectiveBackend>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "collectives: found `stage`, needs library or staged"
        );
        let error = "no".parse::<EpiloguePlacement>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "epilogues: found `no`, needs fused or separate"
        );
    }
}
