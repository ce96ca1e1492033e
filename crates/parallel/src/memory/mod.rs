//! What each segment of a model does with what its forward keeps for its backward.
//!
//! [`SegmentMemory`] is the choice for one segment: keep everything, or the input alone and recompute the rest; on the device,
//! or somewhere else in between. [`ActivationMemory`] states it for a model, of whose segments [`Segments`] selects some by kind or
//! number. No number of a run depends on any of it.

mod segments;

pub use segments::{SegmentName, Segments};

use offload::SharedDisk;
use serde::{Deserialize, Serialize};
use std::{ops::Range, path::PathBuf, str::FromStr};
use tensor::{Error, Result};

/// Where a kind of memory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    /// All places, the nearest first.
    pub const ALL: [PlaceKind; 3] = [PlaceKind::Device, PlaceKind::Host, PlaceKind::Files];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            PlaceKind::Device => "device",
            PlaceKind::Host => "host",
            PlaceKind::Files => "files",
        }
    }
}

impl FromStr for PlaceKind {
    type Err = Error;

    /// One of the [words](PlaceKind::name).
    fn from_str(text: &str) -> Result<PlaceKind> {
        let mut all = PlaceKind::ALL.into_iter();
        let named = all.find(|place| place.name() == text);
        named.ok_or_else(|| {
            Error::invalid("place", format!("found `{text}`"), "device, host or files")
        })
    }
}

/// What a segment does with what its forward keeps for its backward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SegmentMemory {
    /// Whether it keeps its input alone, and runs its forward again in backward.
    pub recompute: bool,
    /// Where what it keeps is in between.
    pub place: PlaceKind,
}

impl SegmentMemory {
    /// Everything, on the device.
    pub const STAYS: SegmentMemory = SegmentMemory {
        recompute: false,
        place: PlaceKind::Device,
    };

    /// The input alone, on the device.
    pub const RECOMPUTED: SegmentMemory = SegmentMemory {
        recompute: true,
        place: PlaceKind::Device,
    };
}

/// What the segments of a model do with what they keep, and the room for what leaves the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivationMemory {
    /// Those that keep their input alone, as far as the [model](crate::Model::recomputed) recomputes them.
    pub recompute: Segments,
    /// Those whose memory is the host's between forward and backward. Where the host is the device, this is memory that the limit
    /// of the device's does not count.
    pub host: Segments,
    /// Those whose memory is in a file of each rank in between, which ends with the run.
    pub files: Segments,
    /// The folder of the files, which may be another one on each host.
    pub folder: PathBuf,
    /// The disk that makes them.
    pub disk: SharedDisk,
    /// The most bytes of a piece that moves.
    pub piece_bytes: usize,
}

impl Default for ActivationMemory {
    fn default() -> Self {
        ActivationMemory {
            recompute: Segments::None,
            host: Segments::None,
            files: Segments::None,
            folder: std::env::temp_dir(),
            disk: SharedDisk::default(),
            piece_bytes: 16 << 20,
        }
    }
}

impl From<SegmentMemory> for ActivationMemory {
    /// The same for all segments.
    fn from(all: SegmentMemory) -> ActivationMemory {
        ActivationMemory {
            recompute: all.recompute.into(),
            host: (all.place == PlaceKind::Host).into(),
            files: (all.place == PlaceKind::Files).into(),
            ..ActivationMemory::default()
        }
    }
}

impl ActivationMemory {
    /// Whether any segment's memory leaves the device.
    pub fn is_beyond(&self) -> bool {
        self.host != Segments::None || self.files != Segments::None
    }

    /// Whether it names segments, whose names a model must know.
    pub fn names_segments(&self) -> bool {
        let all = [&self.recompute, &self.host, &self.files];
        all.iter().any(|those| matches!(those, Segments::Named(_)))
    }

    /// The choice of each segment, of these kinds, of a model that recomputes these runs.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name that selects no segment, or none that the model recomputes, and for a segment in two places.
    pub fn of_segments<K: AsRef<str>>(
        &self,
        kinds: &[K],
        recomputed: &[Range<usize>],
    ) -> Result<Vec<SegmentMemory>> {
        let may_run_again = |segment: usize| recomputed.iter().any(|run| run.contains(&segment));
        let [again, host, files] = [
            ("training.recompute", &self.recompute),
            ("placement.activations", &self.host),
            ("placement.activations", &self.files),
        ]
        .map(|(setting, segments)| segments.selected(setting, kinds));
        let (again, host, files) = (again?, host?, files?);
        self.recompute
            .check_selects("training.recompute", kinds, may_run_again)?;
        let of_segment = |segment: usize| {
            let place = match (host[segment], files[segment]) {
                (true, true) => {
                    let kind = kinds[segment].as_ref();
                    let found = format!("segment {segment} ({kind}) on the host and in files");
                    return Err(Error::invalid(
                        "placement.activations",
                        found,
                        "one place for each segment",
                    ));
                }
                (true, false) => PlaceKind::Host,
                (false, true) => PlaceKind::Files,
                (false, false) => PlaceKind::Device,
            };
            Ok(SegmentMemory {
                recompute: again[segment] && may_run_again(segment),
                place,
            })
        };
        (0..kinds.len()).map(of_segment).collect()
    }

    /// The same room, with these choices, one for each segment, of these kinds.
    pub fn with_segments<K: AsRef<str>>(
        self,
        segments: &[SegmentMemory],
        kinds: &[K],
    ) -> ActivationMemory {
        let those = |is_meant: fn(&SegmentMemory) -> bool| {
            let selected: Vec<bool> = segments.iter().map(is_meant).collect();
            Segments::of(&selected, kinds)
        };
        ActivationMemory {
            recompute: those(|segment| segment.recompute),
            host: those(|segment| segment.place == PlaceKind::Host),
            files: those(|segment| segment.place == PlaceKind::Files),
            ..self
        }
    }
}

/// The runs of segments that are recomputed as one with these choices, if the model treats the runs `recomputed` as one:
/// neighbours in such a run whose inputs are in the same place.
pub fn recomputed_runs(
    segments: &[SegmentMemory],
    recomputed: &[Range<usize>],
) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for own in recomputed {
        for segment in own.clone() {
            let Some(choice) = segments.get(segment).filter(|choice| choice.recompute) else {
                continue;
            };
            match runs.last_mut() {
                Some(run)
                    if run.end == segment
                        && run.start >= own.start
                        && segments[run.start] == *choice =>
                {
                    run.end += 1;
                }
                _ => runs.push(segment..segment + 1),
            }
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [&str; 6] = ["embedding", "attention", "mlp", "attention", "mlp", "head"];

    fn runs() -> Vec<Range<usize>> {
        vec![1..3, 3..5]
    }

    fn some(names: &[&str]) -> Segments {
        Segments::named(names).unwrap()
    }

    #[test]
    fn settings_for_all_are_short_forms() {
        let all = ActivationMemory::from(SegmentMemory::RECOMPUTED);
        let found = all.of_segments(&KINDS, &runs()).unwrap();
        let recomputed: Vec<bool> = found.iter().map(|segment| segment.recompute).collect();
        assert_eq!(recomputed, [false, true, true, true, true, false]);
        assert_eq!(recomputed_runs(&found, &runs()), runs());
        let listed = ActivationMemory::default().with_segments(&found, &KINDS);
        assert_eq!(listed.recompute, some(&["attention", "mlp"]));
        assert_eq!(listed.of_segments(&KINDS, &runs()).unwrap(), found);
    }

    #[test]
    fn neighbours_are_recomputed_as_one_where_they_agree() {
        let memory = ActivationMemory {
            recompute: some(&["attention", "4"]),
            host: some(&["3-5"]),
            files: some(&["1"]),
            ..ActivationMemory::default()
        };
        let found = memory.of_segments(&KINDS, &runs()).unwrap();
        assert_eq!(recomputed_runs(&found, &runs()), [1..2, 3..5]);
        let mut apart = found.clone();
        apart[4].place = PlaceKind::Files;
        assert_eq!(recomputed_runs(&apart, &runs()), [1..2, 3..4, 4..5]);
        // Segments of two of the model's runs are never one.
        apart[2].recompute = true;
        (apart[2].place, apart[3].place) = (PlaceKind::Files, PlaceKind::Files);
        assert_eq!(recomputed_runs(&apart, &runs()), [1..3, 3..5]);
    }

    #[test]
    fn names_that_select_nothing_are_refused() {
        let refused = |recompute: &str, host: &str, files: &str| {
            let memory = ActivationMemory {
                recompute: some(&[recompute]),
                host: some(&[host]),
                files: some(&[files]),
                ..ActivationMemory::default()
            };
            let refused = memory.of_segments(&KINDS, &runs()).unwrap_err();
            refused.to_string()
        };
        let kinds = "a kind of segment (embedding, attention, mlp, head) or numbers from 0 to 5";
        assert_eq!(
            refused("attentoin", "1", "2"),
            format!("training.recompute: found `attentoin`, needs {kinds}")
        );
        assert_eq!(
            refused("1", "4-6", "2"),
            format!("placement.activations: found `4-6`, needs {kinds}")
        );
        assert_eq!(
            refused("head", "1", "2"),
            "training.recompute: found `head`, needs segments that the model recomputes (attention, mlp)"
        );
        assert_eq!(
            refused("1", "attention", "3"),
            "placement.activations: segment 3 (attention) on the host and in files, needs one place for each segment"
        );
    }
}
