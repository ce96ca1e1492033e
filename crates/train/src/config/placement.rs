//! The section `placement`: where the state of a run is that its devices may have no room for.

use super::{check_counts, check_path};
use crate::Result;
use parallel::{
    data::{StatePlacement, StatePlaces, UpdatePlace},
    memory::{ActivationMemory, PlaceKind, Segments},
};
use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf};

/// Where activations are between forward and backward: written as one place for all segments, or as the segments of places, as
/// in `{ host = ["attention"], files = ["3-8"] }`. Segments that it does not name stay on the device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ActivationPlaces {
    /// One place for all.
    All(PlaceKind),
    /// Those of the segments that are not on the device.
    Some(SegmentPlaces),
}

/// The segments whose memory is in each place beyond the device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SegmentPlaces {
    /// In memory of the host.
    #[serde(skip_serializing_if = "is_none")]
    pub host: Segments,
    /// In files.
    #[serde(skip_serializing_if = "is_none")]
    pub files: Segments,
}

fn is_none(segments: &Segments) -> bool {
    *segments == Segments::None
}

impl Default for ActivationPlaces {
    fn default() -> Self {
        PlaceKind::Device.into()
    }
}

impl From<PlaceKind> for ActivationPlaces {
    fn from(all: PlaceKind) -> Self {
        ActivationPlaces::All(all)
    }
}

impl From<SegmentPlaces> for ActivationPlaces {
    /// In the short form where it can be.
    fn from(places: SegmentPlaces) -> Self {
        match places == SegmentPlaces::default() {
            true => ActivationPlaces::default(),
            false => ActivationPlaces::Some(places),
        }
    }
}

impl ActivationPlaces {
    /// The segments whose memory is in each place beyond the device.
    pub fn segments(&self) -> SegmentPlaces {
        match self {
            ActivationPlaces::All(place) => SegmentPlaces {
                host: (*place == PlaceKind::Host).into(),
                files: (*place == PlaceKind::Files).into(),
            },
            ActivationPlaces::Some(places) => places.clone(),
        }
    }

    /// Whether any of them is beyond the device.
    pub fn is_beyond(&self) -> bool {
        self.segments() != SegmentPlaces::default()
    }
}

impl fmt::Display for ActivationPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SegmentPlaces { host, files } = match self {
            ActivationPlaces::All(place) => return f.write_str(place.name()),
            ActivationPlaces::Some(places) => places,
        };
        let named = [("host", host), ("files", files)];
        let named = named.into_iter().filter(|(_, segments)| !is_none(segments));
        let named: Vec<String> = named
            .map(|(place, those)| format!("{place} ({those})"))
            .collect();
        match named.is_empty() {
            true => f.write_str("device"),
            false => f.write_str(&named.join(", ")),
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
        /// What updates weights whose state is beyond the device: the `device`, to which all of the state then comes, or the
        /// processors of the `host`, to which gradients go and from which weights return. On the host, each rank computes with its
        /// share of them. The numbers of a run do not depend on it.
        pub update: UpdatePlace,
        /// Where weights are while no layer uses them: on the `device`, in memory of the `host`, or in `files`. They come to the
        /// device bucket by bucket (`parallel.bucket_mib`), ahead of their use, in the order of the last step. The numbers of a run
        /// do not depend on it.
        pub weights: PlaceKind,
        /// The same of gradients, from a bucket's last addend in a micro-batch to the next micro-batch or the update.
        pub gradients: PlaceKind,
        /// Where activations are between forward and backward: on the `device`, in memory of the `host`, or in `files`; or the
        /// segments that are in one of the last two, by kind or number. What a segment has saved leaves while the next one
        /// runs, and comes back ahead of its backward; with `training.recompute`, that is a segment's input. The numbers of a
        /// run do not depend on it.
        pub activations: ActivationPlaces,
        /// The folder for files, best on a disk of the node; each rank has one there, without a name, until it ends. Absent: the
        /// system's folder for temporary files.
        pub folder: Option<PathBuf>,
        /// The most KiB of a piece; of the optimiser's state also at most an eighth of a bucket's, of which a rank has two on its
        /// device, and five more in the host's memory for files.
        pub piece_kib: usize,
    }
}

impl Default for PlacementConfig {
    fn default() -> Self {
        PlacementConfig {
            optimiser: PlaceKind::Device,
            update: UpdatePlace::Device,
            weights: PlaceKind::Device,
            gradients: PlaceKind::Device,
            activations: ActivationPlaces::default(),
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

    /// Where the optimiser's state, weights and gradients are.
    pub fn of_state(&self) -> StatePlaces {
        StatePlaces {
            optimiser: self.placed(self.optimiser),
            update: self.update,
            weights: self.placed(self.weights),
            gradients: self.placed(self.gradients),
        }
    }

    /// What segments keep between forward and backward, if these are recomputed, and where.
    pub fn of_activations(&self, recompute: Segments) -> ActivationMemory {
        let SegmentPlaces { host, files } = self.activations.segments();
        ActivationMemory {
            recompute,
            host,
            files,
            folder: self.folder(),
            piece_bytes: self.piece_kib << 10,
            ..ActivationMemory::default()
        }
    }

    fn folder(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(std::env::temp_dir)
    }

    fn placed(&self, kind: PlaceKind) -> StatePlacement {
        let piece_bytes = self.piece_kib << 10;
        match kind {
            PlaceKind::Device => StatePlacement::Device,
            PlaceKind::Host => StatePlacement::Host { piece_bytes },
            PlaceKind::Files => StatePlacement::Files {
                folder: self.folder(),
                piece_bytes,
            },
        }
    }
}
