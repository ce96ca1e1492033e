//! Groups of ranks: along an axis, or over several axes, through a given rank.

use crate::{Axis, Grid};

impl Grid {
    /// The ranks along an axis through `rank`, in the order of their coordinate on it.
    ///
    /// # Panics
    /// When the rank is not in the world.
    pub fn group(&self, rank: usize, axis: Axis) -> Vec<usize> {
        self.group_over(rank, &[axis])
    }

    /// The ranks that differ from `rank` only on these axes, with the first one listed varying fastest.
    ///
    /// An axis listed twice adds nothing. Without axes the group is the rank alone.
    ///
    /// # Panics
    /// When the rank is not in the world.
    pub fn group_over(&self, rank: usize, axes: &[Axis]) -> Vec<usize> {
        let coordinates = self.coordinates(rank);
        let origin = axes.iter().fold(coordinates, |at, axis| at.with(*axis, 0));
        let first = vec![self.rank(&origin)];
        let distinct = axes
            .iter()
            .enumerate()
            .filter(|(at, axis)| !axes[..*at].contains(axis));
        distinct.fold(first, |ranks, (_, axis)| self.repeated(&ranks, *axis))
    }

    /// All groups along an axis, in the order of their lowest ranks. Every rank is in exactly one.
    pub fn groups(&self, axis: Axis) -> Vec<Vec<usize>> {
        self.groups_over(&[axis])
    }

    /// All groups over these axes, in the order of their lowest ranks. Every rank is in exactly one.
    pub fn groups_over(&self, axes: &[Axis]) -> Vec<Vec<usize>> {
        let is_first = |rank: &usize| axes.iter().all(|axis| self.coordinates(*rank)[*axis] == 0);
        (0..self.world_size())
            .filter(is_first)
            .map(|rank| self.group_over(rank, axes))
            .collect()
    }

    /// The rank `steps` further along an axis, if the axis reaches that far: the next stage is `shifted(rank,
    /// Pipeline, 1)`.
    ///
    /// # Panics
    /// When the rank is not in the world.
    pub fn shifted(&self, rank: usize, axis: Axis, steps: isize) -> Option<usize> {
        let coordinates = self.coordinates(rank);
        let index = coordinates[axis].checked_add_signed(steps)?;
        (index < self.degree(axis)).then(|| self.rank(&coordinates.with(axis, index)))
    }

    /// The ranks, followed by their copies moved along an axis to each of its other positions.
    fn repeated(&self, ranks: &[usize], axis: Axis) -> Vec<usize> {
        let distance = self.inner_product(axis);
        let positions = 0..self.degree(axis);
        positions
            .flat_map(|index| ranks.iter().map(move |rank| rank + index * distance))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Axis, AxisOrder, Grid};

    fn grid(degrees: &str) -> Grid {
        Grid::new(degrees.parse().unwrap(), AxisOrder::default()).unwrap()
    }

    #[test]
    fn groups_of_eight_ranks_by_hand() {
        let grid = grid("x=2,z=2,data=2");
        assert_eq!(grid.groups(Axis::X), [[0, 1], [2, 3], [4, 5], [6, 7]]);
        assert_eq!(grid.groups(Axis::Z), [[0, 2], [1, 3], [4, 6], [5, 7]]);
        assert_eq!(grid.groups(Axis::Data), [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert_eq!(grid.group(6, Axis::Pipeline), [6]);
    }

    #[test]
    fn a_group_over_axes_follows_their_order() {
        let grid = grid("x=2,z=2,data=2");
        assert_eq!(grid.group_over(7, &[Axis::X, Axis::Data]), [2, 3, 6, 7]);
        assert_eq!(grid.group_over(7, &[Axis::Data, Axis::X]), [2, 6, 3, 7]);
        assert_eq!(grid.group_over(7, &[Axis::X, Axis::X]), [6, 7]);
        assert_eq!(grid.group_over(7, &[]), [7]);
        assert_eq!(
            grid.groups_over(&[Axis::Z, Axis::Data]),
            [[0, 2, 4, 6], [1, 3, 5, 7]]
        );
    }

    #[test]
    fn a_shift_ends_at_the_edge() {
        let grid = grid("x=2,pipeline=3");
        assert_eq!(grid.shifted(1, Axis::Pipeline, 1), Some(3));
        assert_eq!(grid.shifted(1, Axis::Pipeline, 2), Some(5));
        assert_eq!(grid.shifted(1, Axis::Pipeline, 3), None);
        assert_eq!(grid.shifted(1, Axis::Pipeline, -1), None);
        assert_eq!(grid.shifted(5, Axis::Pipeline, -1), Some(3));
    }
}
