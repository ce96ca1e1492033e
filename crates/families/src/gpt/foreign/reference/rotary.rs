//! Rotary positions.

use crate::{RopeScaling, gpt::foreign::rope::Rotary};
use std::f64::consts::TAU;

/// The angle of each pair of the `turned` elements of a head, at each place.
pub(super) fn angles(rotary: &Rotary, turned: usize, places: usize) -> Vec<Vec<f64>> {
    let frequency = |pair: usize| {
        let plain = 1.0 / rotary.base.powf(2.0 * pair as f64 / turned as f64);
        match rotary.scaling {
            RopeScaling::None => plain,
            RopeScaling::Linear(factor) => plain / factor,
            RopeScaling::Llama3 {
                factor,
                low,
                high,
                context,
            } => {
                let turns = context as f64 * plain / TAU;
                if turns > high {
                    plain
                } else if turns < low {
                    plain / factor
                } else {
                    let share = (turns - low) / (high - low);
                    (1.0 - share) * plain / factor + share * plain
                }
            }
        }
    };
    let at = |place: usize| {
        (0..turned / 2)
            .map(|pair| place as f64 * frequency(pair))
            .collect()
    };
    (0..places).map(at).collect()
}

/// Turns the pair (e, e + n) of every head by its angle at the row's place, where n is the number of angles. Elements behind the
/// pairs stay.
pub(super) fn rotate(x: &mut [f64], heads: usize, angles: &[Vec<f64>]) {
    let width = x.len() / angles.len();
    for (row, angles) in x.chunks_mut(width).zip(angles) {
        for head in row.chunks_mut(width / heads) {
            let (left, right) = head.split_at_mut(angles.len());
            for ((a, b), angle) in left.iter_mut().zip(right).zip(angles) {
                let (sin, cos) = angle.sin_cos();
                (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
            }
        }
    }
}
