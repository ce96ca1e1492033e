//! The grid: checked degrees and an order, and the resulting numbering of ranks.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::nearest::nearest_degrees;
use crate::{Axis, AxisOrder, Coordinates, Degrees, Error, Result, factorisations};

/// Above this many ranks, errors list no alternatives: no machine is that large, and the list would be long.
pub(crate) const MAX_SEARCHED_RANKS: usize = 1 << 20;

/// An arrangement of ranks along the six axes. Its degrees are at least 1 and their product fits a `usize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "StoredGrid", into = "StoredGrid")]
pub struct Grid {
    degrees: Degrees,
    order: AxisOrder,
    world_size: usize,
}

/// The stored form of a grid.
#[derive(Serialize, Deserialize)]
struct StoredGrid {
    degrees: Degrees,
    #[serde(default)]
    order: AxisOrder,
}

impl Grid {
    /// A grid with as many ranks as the degrees require.
    ///
    /// # Errors
    /// Those of [`Degrees::world_size`].
    pub fn new(degrees: Degrees, order: AxisOrder) -> Result<Self> {
        Ok(Grid {
            degrees,
            order,
            world_size: degrees.world_size()?,
        })
    }

    /// The grid of one rank.
    pub fn serial() -> Self {
        Grid {
            degrees: Degrees::default(),
            order: AxisOrder::default(),
            world_size: 1,
        }
    }

    /// A grid of exactly `num_ranks` ranks.
    ///
    /// # Errors
    /// [`Error::WorldSize`] if the degrees have another product, with the nearest ones that match; and those of
    /// [`Grid::new`].
    pub fn for_ranks(degrees: Degrees, order: AxisOrder, num_ranks: usize) -> Result<Self> {
        let grid = Grid::new(degrees, order)?;
        if grid.world_size == num_ranks {
            return Ok(grid);
        }
        let candidates = if num_ranks > MAX_SEARCHED_RANKS {
            vec![]
        } else {
            factorisations(num_ranks)
        };
        let nearest = nearest_degrees(&degrees, candidates);
        Err(Error::WorldSize {
            degrees,
            product: grid.world_size,
            num_ranks,
            nearest,
        })
    }

    /// The number of ranks along an axis.
    pub const fn degree(&self, axis: Axis) -> usize {
        self.degrees.get(axis)
    }

    /// The number of ranks along every axis.
    pub const fn degrees(&self) -> Degrees {
        self.degrees
    }

    /// The order in which ranks are numbered.
    pub const fn order(&self) -> AxisOrder {
        self.order
    }

    /// The number of ranks.
    pub const fn world_size(&self) -> usize {
        self.world_size
    }

    /// Product of the degrees of the axes that vary faster than this one.
    ///
    /// It is the distance between neighbours on the axis, and the number of rings that run side by side inside
    /// it.
    pub fn inner_product(&self, axis: Axis) -> usize {
        self.order
            .inside(axis)
            .iter()
            .map(|inner| self.degree(*inner))
            .product()
    }

    /// The position of a rank.
    ///
    /// # Panics
    /// If the rank is not in the world; [`Grid::check_rank`] checks this first.
    pub fn coordinates(&self, rank: usize) -> Coordinates {
        self.check_rank(rank)
            .unwrap_or_else(|error| panic!("Grid::coordinates: a bug: {error}"));
        let (_, coordinates) =
            self.order
                .axes()
                .iter()
                .fold((rank, Coordinates::default()), |(left, at), axis| {
                    let degree = self.degree(*axis);
                    (left / degree, at.with(*axis, left % degree))
                });
        coordinates
    }

    /// The rank at a position.
    ///
    /// # Panics
    /// If a coordinate is not below its degree; [`Grid::check_coordinates`] checks this first.
    pub fn rank(&self, coordinates: &Coordinates) -> usize {
        self.check_coordinates(coordinates)
            .unwrap_or_else(|error| panic!("Grid::rank: a bug: {error}"));
        let outermost_first = self.order.axes().iter().rev();
        outermost_first.fold(0, |rank, axis| {
            rank * self.degree(*axis) + coordinates[*axis]
        })
    }

    /// Checks that the rank exists.
    ///
    /// # Errors
    /// [`Error::RankOutOfRange`] with the number of ranks.
    pub fn check_rank(&self, rank: usize) -> Result<()> {
        if rank < self.world_size {
            return Ok(());
        }
        Err(Error::RankOutOfRange {
            rank,
            world_size: self.world_size,
            degrees: self.degrees,
        })
    }

    /// Checks that the position exists.
    ///
    /// # Errors
    /// [`Error::CoordinateOutOfRange`] with the first axis whose coordinate is not below its degree.
    pub fn check_coordinates(&self, coordinates: &Coordinates) -> Result<()> {
        match Axis::ALL
            .into_iter()
            .find(|axis| coordinates[*axis] >= self.degree(*axis))
        {
            None => Ok(()),
            Some(axis) => Err(Error::CoordinateOutOfRange {
                axis,
                coordinates: *coordinates,
                degrees: self.degrees,
            }),
        }
    }
}

impl Default for Grid {
    fn default() -> Self {
        Grid::serial()
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in order {}", self.degrees, self.order)
    }
}

impl TryFrom<StoredGrid> for Grid {
    type Error = Error;

    fn try_from(parts: StoredGrid) -> Result<Self> {
        Grid::new(parts.degrees, parts.order)
    }
}

impl From<Grid> for StoredGrid {
    fn from(grid: Grid) -> Self {
        StoredGrid {
            degrees: grid.degrees,
            order: grid.order,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(degrees: &str, order: &str) -> Grid {
        Grid::new(degrees.parse().unwrap(), order.parse().unwrap()).unwrap()
    }

    #[test]
    fn the_first_axis_of_the_order_varies_fastest() {
        let grid = grid("x=2,z=3,data=4", "z,x,y,pipeline,data");
        assert_eq!(grid.coordinates(1), Coordinates::default().with(Axis::Z, 1));
        assert_eq!(grid.coordinates(3), Coordinates::default().with(Axis::X, 1));
        assert_eq!(
            grid.coordinates(6),
            Coordinates::default().with(Axis::Data, 1)
        );
        assert_eq!(
            [Axis::Z, Axis::X, Axis::Data].map(|axis| grid.inner_product(axis)),
            [1, 3, 6]
        );
    }

    #[test]
    fn a_wrong_number_of_ranks_is_answered_with_grids_that_work() {
        let degrees = "x=3,z=2,pipeline=2".parse().unwrap();
        let error = Grid::for_ranks(degrees, AxisOrder::default(), 8)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "grid: found 8 ranks, needs 3 (x) x 1 (y) x 2 (z) x 1 (context) x 1 (data) x 2 (pipeline) = 12; \
             the nearest grids of 8 ranks: x=2,y=1,z=2,data=1,pipeline=2 or x=4,y=1,z=1,data=1,pipeline=2 \
             or x=4,y=1,z=2,data=1,pipeline=1"
        );
        assert!(Grid::for_ranks(degrees, AxisOrder::default(), 12).is_ok());
    }

    #[test]
    fn without_ranks_or_with_far_too_many_nothing_is_suggested() {
        for num_ranks in [0, usize::MAX] {
            let error =
                Grid::for_ranks(Degrees::default(), AxisOrder::default(), num_ranks).unwrap_err();
            assert!(error.to_string().ends_with("(pipeline) = 1"), "{error}");
        }
    }

    #[test]
    fn positions_outside_are_refused_with_their_numbers() {
        let grid = grid("x=2,y=2", "x,y,z,pipeline,data");
        assert_eq!(
            grid.check_rank(4).unwrap_err().to_string(),
            "grid x=2,y=2,z=1,data=1,pipeline=1: found rank 4, needs less than 4"
        );
        assert_eq!(
            grid.check_coordinates(&Coordinates::default().with(Axis::Z, 1))
                .unwrap_err()
                .to_string(),
            "grid x=2,y=2,z=1,data=1,pipeline=1: found coordinates x=0,y=0,z=1,data=0,pipeline=0, \
             needs z less than 1"
        );
    }

    #[test]
    fn serde_checks_what_it_reads() {
        let grid = grid("x=2,y=2", "y,x,z,pipeline,data");
        let json = serde_json::to_string(&grid).unwrap();
        assert_eq!(serde_json::from_str::<Grid>(&json).unwrap(), grid);
        assert!(serde_json::from_str::<Grid>(r#"{"degrees":{"x":0}}"#).is_err());
        assert_eq!(
            serde_json::from_str::<Grid>(r#"{"degrees":{}}"#).unwrap(),
            Grid::serial()
        );
        assert_eq!(
            grid.to_string(),
            "x=2,y=2,z=1,data=1,pipeline=1 in order y,x,z,context,pipeline,data"
        );
    }
}
