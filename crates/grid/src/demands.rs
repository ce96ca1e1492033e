//! The demands of a model on its grid.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::grid::MAX_SEARCHED_RANKS;
use crate::nearest::nearest_degrees;
use crate::{Axis, Degrees, Error, Result, factorisations};

/// How many smaller numbers of ranks are searched if no grid with the requested number fits.
const NUM_SMALLER_TRIED: usize = 256;

/// The sizes of a model and its batch that must divide evenly over the grid. A size of 0 makes no demand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Demands {
    /// Attention heads: X divides them.
    pub heads: usize,
    /// Heads of keys and values: X divides them.
    pub kv_heads: usize,
    /// Width of the residual stream: X and Y divide it.
    pub hidden: usize,
    /// Width inside the MLP: X and Y divide it.
    pub mlp_hidden: usize,
    /// Tokens of a sequence: at least two for each rank of Context.
    pub sequence: usize,
    /// Vocabulary size. It must be at least X, because it is padded to a multiple and no rank may hold only
    /// padding.
    pub vocabulary: usize,
    /// The most stages into which the model can be cut: at least Pipeline.
    pub stages: usize,
    /// Sequences in a global batch: Z x Data x micro-batches divides them.
    pub batch: usize,
    /// Micro-batches into which each replica's part of the batch is cut.
    pub micro_batches: usize,
}

/// One demand that a grid does not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// A degree does not divide a size of the model.
    Indivisible {
        /// The axis.
        axis: Axis,
        /// Its degree.
        degree: usize,
        /// Which size.
        what: &'static str,
        /// That size.
        size: usize,
    },
    /// A degree exceeds the model's limit.
    TooMany {
        /// The axis.
        axis: Axis,
        /// Its degree.
        degree: usize,
        /// Which size.
        what: &'static str,
        /// That size.
        size: usize,
    },
    /// The batch does not divide evenly into micro-batches on every rank.
    Batch {
        /// Degree of axis Z.
        z: usize,
        /// Degree of axis Data.
        data: usize,
        /// Micro-batches.
        micro_batches: usize,
        /// Sequences in a global batch.
        batch: usize,
    },
}

impl Demands {
    /// Checks that a grid of these degrees can cut a model of these sizes.
    ///
    /// # Errors
    /// [`Error::Demands`] with everything that does not fit and up to three nearby grids that do, with the same
    /// number of ranks, or slightly fewer if there is none; those of [`Degrees::world_size`].
    pub fn check(&self, degrees: &Degrees) -> Result<()> {
        let world_size = degrees.world_size()?;
        let unmet = self.unmet(degrees);
        if unmet.is_empty() {
            return Ok(());
        }
        Err(Error::Demands {
            degrees: *degrees,
            unmet,
            nearest: self.nearest(degrees, world_size),
        })
    }

    /// Whether a grid of these degrees, all at least 1, can cut a model of these sizes; does not search for
    /// alternatives.
    pub fn are_met_by(&self, degrees: &Degrees) -> bool {
        self.unmet(degrees).is_empty()
    }

    /// All degrees for `num_ranks` ranks that fit, in the order of [`factorisations()`].
    pub fn fits(&self, num_ranks: usize) -> Vec<Degrees> {
        factorisations(num_ranks)
            .into_iter()
            .filter(|degrees| self.are_met_by(degrees))
            .collect()
    }

    fn nearest(&self, degrees: &Degrees, world_size: usize) -> Vec<Degrees> {
        let most = world_size.min(MAX_SEARCHED_RANKS);
        let candidates = (1..=most)
            .rev()
            .take(1 + NUM_SMALLER_TRIED)
            .map(|num_ranks| self.fits(num_ranks));
        let fitting = candidates.into_iter().find(|fitting| !fitting.is_empty());
        nearest_degrees(degrees, fitting.unwrap_or_default())
    }

    /// The demands that these degrees, all at least 1, do not meet.
    fn unmet(&self, degrees: &Degrees) -> Vec<Unmet> {
        let dividing = [
            indivisible(degrees, Axis::X, "heads", self.heads),
            indivisible(degrees, Axis::X, "kv_heads", self.kv_heads),
            indivisible(degrees, Axis::X, "hidden", self.hidden),
            indivisible(degrees, Axis::Y, "hidden", self.hidden),
            indivisible(degrees, Axis::X, "mlp_hidden", self.mlp_hidden),
            indivisible(degrees, Axis::Y, "mlp_hidden", self.mlp_hidden),
            too_many(degrees, Axis::X, "vocabulary", self.vocabulary),
            too_many(degrees, Axis::Context, "sequence / 2", self.sequence / 2),
            too_many(degrees, Axis::Pipeline, "stages", self.stages),
            self.unmet_batch(degrees),
        ];
        dividing.into_iter().flatten().collect()
    }

    fn unmet_batch(&self, degrees: &Degrees) -> Option<Unmet> {
        let (z, data, micro_batches, batch) = (
            degrees.z,
            degrees.data,
            self.micro_batches.max(1),
            self.batch,
        );
        // A product that overflows exceeds any batch, so it divides none.
        let shares = z
            .checked_mul(data)
            .and_then(|ranks| ranks.checked_mul(micro_batches));
        let divides = batch == 0 || shares.is_some_and(|shares| batch.is_multiple_of(shares));
        (!divides).then_some(Unmet::Batch {
            z,
            data,
            micro_batches,
            batch,
        })
    }
}

fn indivisible(degrees: &Degrees, axis: Axis, what: &'static str, size: usize) -> Option<Unmet> {
    let degree = degrees.get(axis);
    (!size.is_multiple_of(degree)).then_some(Unmet::Indivisible {
        axis,
        degree,
        what,
        size,
    })
}

fn too_many(degrees: &Degrees, axis: Axis, what: &'static str, size: usize) -> Option<Unmet> {
    let degree = degrees.get(axis);
    (size != 0 && degree > size).then_some(Unmet::TooMany {
        axis,
        degree,
        what,
        size,
    })
}

impl Unmet {
    /// The sizes of a batch below and above the one asked for that divide evenly; none for another demand.
    pub(crate) fn nearest_batches(&self) -> impl Iterator<Item = usize> {
        let (share, batch) = match *self {
            Unmet::Batch {
                z,
                data,
                micro_batches,
                batch,
            } => (z.saturating_mul(data).saturating_mul(micro_batches), batch),
            _ => (1, 0),
        };
        let below = batch / share * share;
        let sizes = [Some(below), below.checked_add(share)];
        sizes.into_iter().flatten().filter(|size| *size > 0)
    }
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unmet::Indivisible {
                axis,
                degree,
                what,
                size,
            } => {
                write!(f, "{axis}={degree} does not divide {what}={size}")
            }
            Unmet::TooMany {
                axis,
                degree,
                what,
                size,
            } => {
                write!(f, "{axis}={degree} is above {what}={size}")
            }
            Unmet::Batch {
                z,
                data,
                micro_batches,
                batch,
            } => write!(
                f,
                "z={z} x data={data} x micro_batches={micro_batches} = {} does not divide batch={batch}",
                z.saturating_mul(*data).saturating_mul(*micro_batches)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> Demands {
        Demands {
            heads: 12,
            kv_heads: 4,
            hidden: 768,
            mlp_hidden: 3072,
            sequence: 6,
            vocabulary: 50257,
            stages: 4,
            batch: 16,
            micro_batches: 2,
        }
    }

    #[test]
    fn every_failing_number_is_in_the_sentence() {
        let degrees = "x=8,y=5,z=3,context=4,data=2,pipeline=6".parse().unwrap();
        let message = model().check(&degrees).unwrap_err().to_string();
        for part in [
            "x=8 does not divide heads=12, ",
            "x=8 does not divide kv_heads=4, ",
            "y=5 does not divide hidden=768, ",
            "y=5 does not divide mlp_hidden=3072, ",
            "context=4 is above sequence / 2=3, ",
            "pipeline=6 is above stages=4, ",
            "z=3 x data=2 x micro_batches=2 = 12 does not divide batch=16; ",
        ] {
            assert!(message.contains(part), "{part} not in {message}");
        }
        assert!(!message.contains("x=8 does not divide hidden"), "{message}");
    }

    #[test]
    fn the_nearest_grids_that_fit_are_named() {
        let message = model()
            .check(&"x=8".parse().unwrap())
            .unwrap_err()
            .to_string();
        assert_eq!(
            message,
            "grid x=8,y=1,z=1,data=1,pipeline=1 does not fit the model: x=8 does not divide heads=12, \
             x=8 does not divide kv_heads=4; the nearest grids of 8 ranks that fit: \
             x=4,y=1,z=1,data=1,pipeline=2 or x=4,y=1,z=1,data=2,pipeline=1 or \
             x=4,y=1,z=1,context=2,data=1,pipeline=1"
        );
    }

    #[test]
    fn with_no_grid_of_that_size_a_smaller_one_is_named() {
        let message = model()
            .check(&"data=7".parse().unwrap())
            .unwrap_err()
            .to_string();
        assert!(
            message.contains(
                "no grid with that many ranks fits; the nearest grids of 6 ranks that do: "
            ),
            "{message}"
        );
    }

    #[test]
    fn a_batch_that_fits_no_grid_is_to_blame() {
        let odd = Demands {
            batch: 3,
            micro_batches: 2,
            ..Demands::default()
        };
        let message = odd.check(&Degrees::default()).unwrap_err().to_string();
        assert_eq!(
            message,
            "batch=3 does not fit grid x=1,y=1,z=1,data=1,pipeline=1: z=1 x data=1 x micro_batches=2 = 2 does not divide batch=3; \
             the nearest batches that fit: 2 or 4"
        );
        let message = model().check(&"z=3".parse().unwrap()).unwrap_err();
        let message = message.to_string();
        assert!(
            message.contains(
                "the nearest batches that fit: 12 or 18; the nearest grids of 3 ranks that fit: "
            ),
            "{message}"
        );
    }

    #[test]
    fn zero_asks_for_nothing() {
        assert_eq!(Demands::default().fits(8).len(), 56);
        assert!(
            Demands {
                vocabulary: 4,
                ..Demands::default()
            }
            .check(&"x=8".parse().unwrap())
            .is_err()
        );
    }

    #[test]
    fn what_fits_passes_and_what_does_not_fails() {
        for num_ranks in 1..=32 {
            let fitting = model().fits(num_ranks);
            for degrees in factorisations(num_ranks) {
                assert_eq!(
                    model().check(&degrees).is_ok(),
                    fitting.contains(&degrees),
                    "{degrees}"
                );
            }
        }
    }

    #[test]
    fn absurd_degrees_are_answered_at_once() {
        let degrees = Degrees::tensor([1 << 30, 1 << 30, 1]);
        assert!(matches!(
            model().check(&degrees),
            Err(Error::Demands { .. })
        ));
        assert!(model().check(&Degrees::tensor([0, 1, 1])).is_err());
        let many = Demands {
            micro_batches: usize::MAX,
            ..model()
        };
        assert!(
            many.check(&Degrees::tensor([1, 1, 2]))
                .unwrap_err()
                .to_string()
                .contains("does not divide batch=16")
        );
    }
}
