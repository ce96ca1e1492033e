//! How activations lie on ranks.

use grid::{Axis, Degrees};

/// How the elements of an activation lie on ranks of X, Y and Context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The axis that cuts its features: X, Y or none.
    pub cut: Option<Axis>,
    /// Whether sequence parallelism spreads its vectors over X; not if X cuts its features.
    pub runs: bool,
    /// Whether Context cuts its sequences.
    pub tokens: bool,
}

impl Place {
    /// Number of places.
    pub const COUNT: usize = 10;

    /// All places, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Place> {
        let of_features = [
            (Some(Axis::X), false),
            (Some(Axis::Y), false),
            (None, false),
            (Some(Axis::Y), true),
            (None, true),
        ];
        let with = move |tokens| of_features.map(|(cut, runs)| Place { cut, runs, tokens });
        with(false).into_iter().chain(with(true))
    }

    /// Its number.
    pub fn index(self) -> usize {
        let of_features = match (self.cut, self.runs) {
            (Some(Axis::X), _) => 0,
            (Some(_), false) => 1,
            (None, false) => 2,
            (Some(_), true) => 3,
            (None, true) => 4,
        };
        of_features + if self.tokens { Place::COUNT / 2 } else { 0 }
    }

    /// Number of ranks of a grid that share the elements, with or without sequence parallelism.
    pub fn ranks(self, degrees: &Degrees, sequence_parallel: bool) -> usize {
        let of_features = self.cut.map_or(1, |axis| degrees.get(axis));
        let runs = self.runs && self.cut != Some(Axis::X) && sequence_parallel;
        of_features
            * if runs { degrees.x } else { 1 }
            * if self.tokens { degrees.context } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_in_the_list() {
        assert_eq!(Place::all().count(), Place::COUNT);
        for (number, place) in Place::all().enumerate() {
            assert_eq!(place.index(), number);
        }
    }

    #[test]
    fn each_axis_that_cuts_shares() {
        let degrees: Degrees = "x=2,y=3,z=7,context=5".parse().unwrap();
        let of = |cut, runs, tokens| {
            let place = Place { cut, runs, tokens };
            [false, true].map(|spread| place.ranks(&degrees, spread))
        };
        assert_eq!(of(Some(Axis::X), false, true), [10, 10]);
        assert_eq!(of(Some(Axis::Y), true, false), [3, 6]);
        assert_eq!(of(None, true, true), [5, 10]);
        assert_eq!(of(None, false, false), [1, 1]);
    }
}
