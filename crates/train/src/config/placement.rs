//! The section `placement`: where the state of a run is that its devices may have no room for.

use super::{check_counts, check_path};
use crate::Result;
use parallel::data::StatePlacement;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where a kind of memory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlaceKind {
    /// On the device.
    #[default]
    Device,
    /// In memory of the host.
    Host,
    /// In a file for each rank.
    Files,
}

impl PlaceKind {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            PlaceKind::Device => "device",
            PlaceKind::Host => "host",
            PlaceKind::Files => "files",
        }
    }
}

crate::section! {
    /// Where the state of a run is that its devices may have no room for.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct PlacementConfig {
        /// Where the optimiser's state is between steps, and with 16-bit precision the weights in f32: on the `device`, in
        /// memory of the `host`, or in `files`. It comes to the device in pieces while others are updated. The numbers of a run
        /// do not depend on it.
        pub optimiser: PlaceKind,
        /// The folder for files, best on a disk of the node; each rank has one there, without a name, until it ends. Absent: the
        /// system's folder for temporary files.
        pub folder: Option<PathBuf>,
        /// The most KiB of a piece, which is also at most an eighth of a bucket's state. A rank has buffers of two pieces on
        /// its device, and of five more in the host's memory for files.
        pub piece_kib: usize,
    }
}

impl Default for PlacementConfig {
    fn default() -> Self {
        PlacementConfig {
            optimiser: PlaceKind::Device,
            folder: None,
            piece_kib: 16 << 10,
        }
    }
}

/// The largest piece, in KiB.
const MOST_PIECE_KIB: usize = 16 << 20;

impl PlacementConfig {
    /// What is wrong with the values.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) for pieces of no bytes or beyond their bound, and for a folder without a name.
    pub fn check(&self) -> Result<()> {
        check_counts(
            "placement",
            &[("piece_kib", self.piece_kib, 1..=MOST_PIECE_KIB)],
        )?;
        check_path("placement.folder", self.folder.as_deref())
    }

    /// Where the optimiser's state is.
    pub fn of_optimiser(&self) -> StatePlacement {
        let piece_bytes = self.piece_kib << 10;
        match self.optimiser {
            PlaceKind::Device => StatePlacement::Device,
            PlaceKind::Host => StatePlacement::Host { piece_bytes },
            PlaceKind::Files => StatePlacement::Files {
                folder: self.folder.clone().unwrap_or_else(std::env::temp_dir),
                piece_bytes,
            },
        }
    }
}
