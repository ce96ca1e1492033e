//! Possible distances between neighbours on each axis, which is all that an order of axes changes.

use grid::{Axis, AxisOrder, Degrees};
use std::collections::HashSet;

/// For each axis, the index of its distance among those it can have.
pub(crate) type Places = [usize; Axis::ALL.len()];

/// Every axis at its cheapest distance. No single order may achieve this for all axes.
pub(crate) const ANY: Places = [0; Axis::ALL.len()];

/// The distances of a grid's axes under some orders.
#[derive(Clone, Debug)]
pub(crate) struct Distances {
    by_axis: [Vec<usize>; Axis::ALL.len()],
    orders: Vec<(AxisOrder, Places)>,
}

impl Distances {
    /// The distances under `orders`. Of several orders with equal distances on every axis, the first is kept.
    pub(crate) fn new(degrees: &Degrees, orders: &[AxisOrder]) -> Distances {
        let mut by_axis: [Vec<usize>; Axis::ALL.len()] = Default::default();
        let mut place = |axis: Axis, order: &AxisOrder| {
            let inside: usize = order
                .inside(axis)
                .iter()
                .map(|inner| degrees.get(*inner))
                .product();
            let known = &mut by_axis[axis as usize];
            let at = known
                .iter()
                .position(|distance| *distance == inside)
                .unwrap_or_else(|| {
                    known.push(inside);
                    known.len() - 1
                });
            at + 1
        };
        let talks = |axis: &Axis| degrees.get(*axis) > 1;
        let mut seen = HashSet::new();
        let mut distinct = Vec::new();
        for order in orders {
            let mut places = ANY;
            Axis::ALL
                .into_iter()
                .filter(talks)
                .for_each(|axis| places[axis as usize] = place(axis, order));
            if seen.insert(places) {
                distinct.push((*order, places));
            }
        }
        Distances {
            by_axis,
            orders: distinct,
        }
    }

    /// The orders, each with the distance indices of the axes.
    pub(crate) fn orders(&self) -> impl ExactSizeIterator<Item = (AxisOrder, &Places)> {
        self.orders.iter().map(|(order, places)| (*order, places))
    }

    /// Ranks between neighbours on `axis`, by distance index; empty if the axis has a single rank.
    pub(super) fn of(&self, axis: Axis) -> &[usize] {
        &self.by_axis[axis as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_that_differ_in_axes_of_one_rank_are_one() {
        let count = |text: &str| {
            let distances = Distances::new(&text.parse().unwrap(), &AxisOrder::all());
            distances.orders().len()
        };
        assert_eq!(count("x=1"), 1);
        assert_eq!(count("x=2,z=4"), 2);
        assert_eq!(count("x=2,y=3,z=5"), 6);
        assert_eq!(count("x=2,y=2,z=2,data=2,pipeline=2"), 120);
    }

    #[test]
    fn a_place_is_where_the_order_puts_the_axis() {
        let degrees: Degrees = "x=2,z=4,data=8".parse().unwrap();
        let distances = Distances::new(&degrees, &AxisOrder::all());
        for (order, places) in distances.orders() {
            for axis in [Axis::X, Axis::Z, Axis::Data] {
                let inside: usize = order
                    .inside(axis)
                    .iter()
                    .map(|inner| degrees.get(*inner))
                    .product();
                assert_eq!(
                    distances.of(axis)[places[axis as usize] - 1],
                    inside,
                    "{axis} in {order}"
                );
            }
        }
    }
}
