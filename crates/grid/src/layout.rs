//! Which axes cut which dims of a tensor, and the elements that a rank therefore holds.

use serde::{Deserialize, Serialize};

use crate::{Axis, Coordinates, Error, Grid, IndexBox, Result, feature_range, shard_range};

/// For every dim of a tensor, the axes that cut it, outermost first.
///
/// The first axis cuts the dim into shards, the next one cuts each shard again, and so on: X and Y by
/// [`feature_range`], the others by [`shard_range`].
/// An axis cuts at most one dim. The tensor is replicated over the axes that cut nothing. Written as `[x z |
/// y]`; an uncut dim is `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<Vec<Axis>>", into = "Vec<Vec<Axis>>")]
pub struct Layout {
    dims: Vec<Vec<Axis>>,
}

impl Layout {
    /// A tensor of `num_dims` dims of which every rank holds a full copy.
    pub fn replicated(num_dims: usize) -> Self {
        Layout {
            dims: vec![vec![]; num_dims],
        }
    }

    /// A tensor whose dims are cut by these axes.
    ///
    /// # Errors
    /// [`Error::CutTwice`] if an axis is listed more than once.
    pub fn cut(dims: Vec<Vec<Axis>>) -> Result<Self> {
        let mut first_dims = [None; crate::NUM_AXES];
        for (dim, axes) in dims.iter().enumerate() {
            for axis in axes {
                if let Some(first_dim) = first_dims[axis.index()].replace(dim) {
                    return Err(Error::CutTwice {
                        axis: *axis,
                        first_dim,
                        second_dim: dim,
                    });
                }
            }
        }
        Ok(Layout { dims })
    }

    /// The axes that cut each dim, outermost first.
    pub fn dims(&self) -> &[Vec<Axis>] {
        &self.dims
    }

    /// The number of dims.
    pub fn num_dims(&self) -> usize {
        self.dims.len()
    }

    /// The dim that an axis cuts, if any.
    pub fn cuts(&self, axis: Axis) -> Option<usize> {
        self.dims.iter().position(|axes| axes.contains(&axis))
    }

    /// All axes that cut a dim, dim by dim.
    pub fn axes(&self) -> Vec<Axis> {
        self.dims.concat()
    }

    /// The axes with more than one rank along which all ranks hold the same elements.
    ///
    /// Only the cuts count: that a tensor lives on one pipeline stage is known to the caller, and
    /// [`Axis::Pipeline`] is listed for such a tensor too.
    pub fn replicated_over(&self, grid: &Grid) -> Vec<Axis> {
        let copies = |axis: &Axis| grid.degree(*axis) > 1 && self.cuts(*axis).is_none();
        Axis::ALL.into_iter().filter(copies).collect()
    }

    /// The number of shards into which a dim is cut.
    ///
    /// # Panics
    /// If the layout has no such dim.
    pub fn num_shards(&self, dim: usize, grid: &Grid) -> usize {
        self.dims[dim]
            .iter()
            .map(|axis| grid.degree(*axis))
            .product()
    }

    /// Whether all shards have the same shape.
    ///
    /// # Panics
    /// If the shape and the layout have different numbers of dims; [`Layout::check`] checks this first.
    pub fn is_even(&self, global_shape: &[usize], grid: &Grid) -> bool {
        self.expect("is_even", global_shape);
        let mut dims = global_shape.iter().enumerate();
        dims.all(|(dim, len)| len.is_multiple_of(self.num_shards(dim, grid)))
    }

    /// The elements that the rank at these coordinates holds.
    ///
    /// # Panics
    /// If the shape and the layout have different numbers of dims ([`Layout::check`] checks this first), or the
    /// coordinates are not in the grid.
    pub fn local_box(
        &self,
        global_shape: &[usize],
        grid: &Grid,
        coordinates: &Coordinates,
    ) -> IndexBox {
        self.expect("local_box", global_shape);
        let dims = self.dims.iter().zip(global_shape);
        let (start, shape) = dims
            .map(|(axes, len)| cut_dim(*len, axes, grid, coordinates))
            .unzip();
        IndexBox { start, shape }
    }

    /// The shape of the shard that the rank at these coordinates holds.
    ///
    /// # Panics
    /// As [`Layout::local_box`].
    pub fn local_shape(
        &self,
        global_shape: &[usize],
        grid: &Grid,
        coordinates: &Coordinates,
    ) -> Vec<usize> {
        self.local_box(global_shape, grid, coordinates).shape
    }

    /// Checks that a tensor of this shape can have the layout.
    ///
    /// # Errors
    /// [`Error::NumDims`] if it has another number of dims.
    pub fn check(&self, global_shape: &[usize]) -> Result<()> {
        if global_shape.len() == self.num_dims() {
            return Ok(());
        }
        let (layout, num_dims) = (self.to_string(), self.num_dims());
        Err(Error::NumDims {
            layout,
            num_dims,
            shape: global_shape.to_vec(),
        })
    }

    fn expect(&self, operation: &str, global_shape: &[usize]) {
        self.check(global_shape)
            .unwrap_or_else(|error| panic!("Layout::{operation}: a bug: {error}"));
    }
}

/// Start and length of the part of a dim that remains after every axis has cut it.
fn cut_dim(len: usize, axes: &[Axis], grid: &Grid, coordinates: &Coordinates) -> (usize, usize) {
    axes.iter().fold((0, len), |(start, len), axis| {
        let cut = match axis {
            Axis::X | Axis::Y => feature_range,
            Axis::Z | Axis::Context | Axis::Data | Axis::Pipeline => shard_range,
        };
        let range = cut(len, grid.degree(*axis), coordinates[*axis]);
        (start + range.start, range.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AxisOrder;

    fn grid(degrees: &str) -> Grid {
        Grid::new(degrees.parse().unwrap(), AxisOrder::default()).unwrap()
    }

    #[test]
    fn axes_cut_one_after_the_other() {
        let grid = grid("x=2,y=2,z=2");
        let layout: Layout = "[y z | x]".parse().unwrap();
        let at = Coordinates::default()
            .with(Axis::X, 1)
            .with(Axis::Y, 1)
            .with(Axis::Z, 1);
        // Y leaves 5..10 of 10 rows, of which Z leaves the last two.
        let piece = layout.local_box(&[10, 7], &grid, &at);
        assert_eq!(
            piece,
            IndexBox {
                start: vec![8, 4],
                shape: vec![2, 3]
            }
        );
        assert_eq!(
            layout.local_shape(&[10, 7], &grid, &Coordinates::default()),
            [3, 4]
        );
    }

    #[test]
    fn what_cuts_and_what_copies() {
        let grid = grid("x=2,z=3,data=2");
        let layout: Layout = "[x | - | z y]".parse().unwrap();
        assert_eq!(layout.axes(), [Axis::X, Axis::Z, Axis::Y]);
        assert_eq!(
            (layout.cuts(Axis::Y), layout.cuts(Axis::Data)),
            (Some(2), None)
        );
        assert_eq!(layout.replicated_over(&grid), [Axis::Data]);
        assert_eq!(
            Layout::replicated(2).replicated_over(&grid),
            [Axis::X, Axis::Z, Axis::Data]
        );
        assert_eq!(
            (layout.num_shards(1, &grid), layout.num_shards(2, &grid)),
            (1, 3)
        );
        assert!(layout.is_even(&[4, 1, 9], &grid) && !layout.is_even(&[4, 1, 8], &grid));
    }

    #[test]
    fn an_axis_cuts_once() {
        for dims in [
            vec![vec![Axis::X], vec![Axis::Y, Axis::X]],
            vec![vec![], vec![Axis::X, Axis::X]],
        ] {
            assert!(matches!(
                Layout::cut(dims),
                Err(Error::CutTwice {
                    axis: Axis::X,
                    second_dim: 1,
                    ..
                })
            ));
        }
        let error = Layout::cut(vec![vec![Axis::X], vec![Axis::X]]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "layout: found axis x in dim 0 and again in dim 1, needs at most one cut per axis"
        );
    }

    #[test]
    fn another_number_of_dims_is_refused() {
        assert_eq!(
            Layout::replicated(2)
                .check(&[4, 5, 6])
                .unwrap_err()
                .to_string(),
            "layout [- | -]: found shape [4, 5, 6] of 3 dims, needs 2"
        );
    }
}
