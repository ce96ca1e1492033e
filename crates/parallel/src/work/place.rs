//! How activations lie on ranks.

use grid::{Axis, Degrees};

/// How the elements of an activation lie on ranks of X and Y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Features cut over X.
    X,
    /// Features cut over Y.
    Y,
    /// The same on all ranks.
    Whole,
    /// Features cut over Y, and vectors spread over X under sequence parallelism.
    SpreadY,
    /// Vectors spread over X under sequence parallelism.
    Spread,
}

impl Place {
    /// Number of places.
    pub const COUNT: usize = Place::Spread as usize + 1;
    /// All places, in the order of their numbers.
    pub const ALL: [Place; Place::COUNT] = [
        Place::X,
        Place::Y,
        Place::Whole,
        Place::SpreadY,
        Place::Spread,
    ];

    /// That of features cut by an axis, and vectors that may be spread.
    pub fn of(cut: Option<Axis>, spread: bool) -> Place {
        match (cut, spread) {
            (Some(Axis::X), _) => Place::X,
            (Some(_), false) => Place::Y,
            (None, false) => Place::Whole,
            (Some(_), true) => Place::SpreadY,
            (None, true) => Place::Spread,
        }
    }

    /// Number of ranks of a grid that share the elements, with or without sequence parallelism.
    pub fn ranks(self, degrees: &Degrees, sequence_parallel: bool) -> usize {
        let spread = if sequence_parallel { degrees.x } else { 1 };
        match self {
            Place::X => degrees.x,
            Place::Y => degrees.y,
            Place::Whole => 1,
            Place::SpreadY => degrees.y * spread,
            Place::Spread => spread,
        }
    }
}
