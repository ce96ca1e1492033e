//! The position of a rank in the grid.

use std::fmt;
use std::ops::{Index, IndexMut};

use crate::Axis;
use crate::axis::NUM_AXES;
use crate::degrees_text::per_axis;

/// A position in the grid: one index per axis, each counted from 0. The default is the origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Coordinates([usize; NUM_AXES]);

impl Coordinates {
    /// The index on an axis.
    pub const fn get(&self, axis: Axis) -> usize {
        self.0[axis.index()]
    }

    /// The same position, with another index on one axis.
    #[must_use]
    pub const fn with(mut self, axis: Axis, index: usize) -> Self {
        self.0[axis.index()] = index;
        self
    }
}

impl Index<Axis> for Coordinates {
    type Output = usize;

    fn index(&self, axis: Axis) -> &usize {
        &self.0[axis.index()]
    }
}

impl IndexMut<Axis> for Coordinates {
    fn index_mut(&mut self, axis: Axis) -> &mut usize {
        &mut self.0[axis.index()]
    }
}

impl fmt::Display for Coordinates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&per_axis(0, |axis| self.get(axis)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_axis_has_its_own_index() {
        let mut coordinates = Coordinates::default();
        for (n, axis) in Axis::ALL.into_iter().enumerate() {
            coordinates[axis] = n + 1;
        }
        assert_eq!(
            coordinates.to_string(),
            "x=1,y=2,z=3,context=4,data=5,pipeline=6"
        );
        assert_eq!(coordinates.with(Axis::Data, 7)[Axis::Data], 7);
        assert_eq!(coordinates.get(Axis::Data), 5);
        assert_eq!(
            coordinates.with(Axis::Context, 0).to_string(),
            "x=1,y=2,z=3,data=5,pipeline=6"
        );
    }
}
