//! How many ranks lie along each axis.

use crate::{Axis, Error, Result};

/// The degree of every axis: the number of ranks along it.
///
/// The fields may be set freely; [`Degrees::world_size`] and everything that takes degrees refuse a 0. Written
/// as `x=2,y=1,z=2,data=1,pipeline=2`, with `context=2` after `z` if it is not 1. Parsed from such a text, where unnamed
/// axes are 1, or from a table of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Degrees {
    /// Degree of axis X.
    pub x: usize,
    /// Degree of axis Y.
    pub y: usize,
    /// Degree of axis Z.
    pub z: usize,
    /// Degree of axis Context: into how many parts each sequence is cut.
    pub context: usize,
    /// Degree of axis Data: how many replicas there are.
    pub data: usize,
    /// Degree of axis Pipeline: how many stages there are.
    pub pipeline: usize,
}

impl Default for Degrees {
    fn default() -> Self {
        Degrees {
            x: 1,
            y: 1,
            z: 1,
            context: 1,
            data: 1,
            pipeline: 1,
        }
    }
}

impl Degrees {
    /// Tensor parallelism only: AxoNN's `tp_dimensions`.
    pub fn tensor([x, y, z]: [usize; 3]) -> Self {
        Degrees {
            x,
            y,
            z,
            ..Degrees::default()
        }
    }

    /// The degree of an axis.
    pub const fn get(&self, axis: Axis) -> usize {
        match axis {
            Axis::X => self.x,
            Axis::Y => self.y,
            Axis::Z => self.z,
            Axis::Context => self.context,
            Axis::Data => self.data,
            Axis::Pipeline => self.pipeline,
        }
    }

    /// The same degrees, with another degree on one axis.
    #[must_use]
    pub const fn with(mut self, axis: Axis, degree: usize) -> Self {
        match axis {
            Axis::X => self.x = degree,
            Axis::Y => self.y = degree,
            Axis::Z => self.z = degree,
            Axis::Context => self.context = degree,
            Axis::Data => self.data = degree,
            Axis::Pipeline => self.pipeline = degree,
        }
        self
    }

    /// Every axis with its degree, in the order of [`Axis::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Axis, usize)> + use<> {
        let degrees = *self;
        Axis::ALL
            .into_iter()
            .map(move |axis| (axis, degrees.get(axis)))
    }

    /// The number of ranks: the product of all degrees.
    ///
    /// # Errors
    /// [`Error::ZeroDegree`] if a degree is 0, [`Error::TooLarge`] if the product overflows.
    pub fn world_size(&self) -> Result<usize> {
        if let Some((axis, _)) = self.iter().find(|(_, degree)| *degree == 0) {
            return Err(Error::ZeroDegree {
                axis,
                degrees: *self,
            });
        }
        let product = self
            .iter()
            .try_fold(1_usize, |product, (_, degree)| product.checked_mul(degree));
        product.ok_or(Error::TooLarge { degrees: *self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn get_and_with_agree() {
        for (n, axis) in Axis::ALL.into_iter().enumerate() {
            let degrees = Degrees::default().with(axis, n + 2);
            assert_eq!(degrees.get(axis), n + 2);
            assert_eq!(degrees.world_size(), Ok(n + 2));
            assert!(
                degrees
                    .iter()
                    .all(|(other, degree)| other == axis || degree == 1)
            );
        }
    }

    #[test]
    fn the_default_is_one_rank() {
        assert_eq!(Degrees::default().world_size(), Ok(1));
        assert_eq!(Degrees::tensor([2, 3, 4]).world_size(), Ok(24));
    }

    #[test]
    fn a_zero_degree_is_refused() {
        let error = Degrees::default()
            .with(Axis::Z, 0)
            .world_size()
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "grid x=1,y=1,z=0,data=1,pipeline=1: found degree 0 on axis z, needs at least 1"
        );
    }

    #[test]
    fn a_product_that_overflows_is_refused() {
        let degrees = Degrees::tensor([1 << 40, 1 << 40, 1]);
        assert_eq!(degrees.world_size(), Err(Error::TooLarge { degrees }));
        assert!(
            degrees
                .world_size()
                .unwrap_err()
                .to_string()
                .contains("x=1099511627776,y=1099511627776")
        );
    }
}
