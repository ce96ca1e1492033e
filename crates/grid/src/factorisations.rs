//! All grids with a given number of ranks.

use crate::{Axis, Degrees};

/// All degrees whose product is `num_ranks`, in ascending order of (x, y, z, context, data, pipeline).
///
/// Their number grows with the prime factors: 56 for 8 ranks, 15,504 for 32,768. There are none for 0 ranks.
pub fn factorisations(num_ranks: usize) -> Vec<Degrees> {
    if num_ranks == 0 {
        return vec![];
    }
    let divisors = divisors(num_ranks);
    let mut found = vec![];
    extend(
        Degrees::default(),
        &Axis::ALL,
        num_ranks,
        &divisors,
        &mut found,
    );
    found
}

/// Assigns each divisor of `left` to the first of `axes`, and the remaining factor to the others.
fn extend(
    degrees: Degrees,
    axes: &[Axis],
    left: usize,
    divisors: &[usize],
    found: &mut Vec<Degrees>,
) {
    let [axis, rest @ ..] = axes else { return };
    if rest.is_empty() {
        found.push(degrees.with(*axis, left));
        return;
    }
    for degree in divisors
        .iter()
        .filter(|degree| left.is_multiple_of(**degree))
    {
        extend(
            degrees.with(*axis, *degree),
            rest,
            left / degree,
            divisors,
            found,
        );
    }
}

/// The divisors of `n`, ascending.
fn divisors(n: usize) -> Vec<usize> {
    let small: Vec<usize> = (1..=n.isqrt()).filter(|d| n.is_multiple_of(*d)).collect();
    let large = small.iter().rev().map(|d| n / d).filter(|d| d * d > n);
    small.iter().copied().chain(large).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_combinatorics() {
        // p^e has C(e + 5, 5) ordered factorisations in six factors, and the count is multiplicative.
        for (n, count) in [
            (0, 0),
            (1, 1),
            (2, 6),
            (4, 21),
            (8, 56),
            (6, 36),
            (12, 126),
            (30, 216),
            (32768, 15504),
        ] {
            assert_eq!(factorisations(n).len(), count, "{n}");
        }
    }

    #[test]
    fn each_has_the_right_product_and_comes_once() {
        for n in 1..=96 {
            let found = factorisations(n);
            assert!(found.iter().all(|degrees| degrees.world_size() == Ok(n)));
            assert!(found.is_sorted_by(|a, b| a < b), "{n}");
        }
    }

    #[test]
    fn divisors_of_squares_come_once() {
        assert_eq!(divisors(1), [1]);
        assert_eq!(divisors(36), [1, 2, 3, 4, 6, 9, 12, 18, 36]);
    }
}
