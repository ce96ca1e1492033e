//! How the parts of a model lie on the stages of a pipeline.

use serde::{Deserialize, Serialize};

/// A part of the model on a stage: chunk `chunk` of stage `stage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChunkLocation {
    /// Index along the Pipeline axis.
    pub stage: usize,
    /// Index among the model chunks of that stage.
    pub chunk: usize,
}

/// The way that parts of the model take through the stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Each chunk from the first stage to the last.
    #[default]
    Wrap,
    /// Every second chunk from the last stage back to the first.
    V,
}

/// The stages of a pipeline, and the parts of the model on them: part `number * chunk + i` is the `i`-th of its chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stages {
    /// Number of stages, the degree of the Pipeline axis.
    pub number: usize,
    /// Parts of the model on each stage.
    pub chunks: usize,
    /// Which stage holds which part.
    pub placement: Placement,
}

impl Stages {
    /// Stages with one part each.
    pub const fn plain(number: usize) -> Stages {
        Stages {
            number,
            chunks: 1,
            placement: Placement::Wrap,
        }
    }

    /// Parts of the model in all.
    pub const fn num_parts(self) -> usize {
        self.number.saturating_mul(self.chunks)
    }

    /// Where a part lies.
    ///
    /// # Panics
    /// If there are no stages.
    pub fn location(self, part: usize) -> ChunkLocation {
        let (chunk, place) = (part / self.number, part % self.number);
        let stage = self.along(chunk, place);
        ChunkLocation { stage, chunk }
    }

    /// The part that lies there: the inverse of [`location`](Stages::location).
    pub fn part(self, at: ChunkLocation) -> usize {
        at.chunk * self.number + self.along(at.chunk, at.stage)
    }

    /// Whether messages between this part and the next one go from the last stage to the first, as every second chunk of a V.
    ///
    /// # Panics
    /// If there are no stages.
    pub fn is_way_back(self, part: usize) -> bool {
        self.placement == Placement::V && self.location(part).chunk % 2 == 1
    }

    // The stage at a place on the way of a chunk, and the place of a stage.
    fn along(self, chunk: usize, place: usize) -> usize {
        match self.placement {
            Placement::V if chunk % 2 == 1 => self.number - 1 - place,
            _ => place,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_round_trip() {
        for placement in [Placement::Wrap, Placement::V] {
            let stages = Stages {
                number: 4,
                chunks: 6,
                placement,
            };
            for part in 0..stages.num_parts() {
                assert_eq!(stages.part(stages.location(part)), part);
            }
            let stage = match placement {
                Placement::Wrap => 2,
                Placement::V => 1,
            };
            assert_eq!(stages.location(6), ChunkLocation { stage, chunk: 1 });
        }
    }
}
