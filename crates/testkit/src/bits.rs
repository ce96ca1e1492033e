//! Runs that must have the same bits.

use std::collections::BTreeMap;
use testing::Outcome;

// The first parameter with another bit.
fn difference(
    found: &BTreeMap<String, Vec<f64>>,
    expected: &BTreeMap<String, Vec<f64>>,
) -> Option<String> {
    assert_eq!(found.len(), expected.len());
    found.iter().find_map(|(name, found)| {
        let pairs = found.iter().zip(&expected[name]);
        let mut apart = pairs
            .enumerate()
            .filter(|(_, (a, b))| a.to_bits() != b.to_bits());
        let (index, (a, b)) = apart.next()?;
        let count = 1 + apart.count();
        Some(format!(
            "{name}: {count} of {} elements, the first at {index}: {a:e} and {b:e}",
            found.len()
        ))
    })
}

/// Holds losses, norms, gradients and weights of a run to the bits of another.
///
/// # Panics
/// With `what` and the first difference.
pub fn check(found: &Outcome, expected: &Outcome, what: &str) {
    for (part, found, expected) in [
        (
            "first gradients",
            &found.first_gradients,
            &expected.first_gradients,
        ),
        ("last gradients", &found.gradients, &expected.gradients),
        ("weights", &found.weights, &expected.weights),
    ] {
        // Shards of an optimiser leave no complete gradients.
        let difference = (!found.is_empty())
            .then(|| difference(found, expected))
            .flatten();
        assert_eq!(difference, None, "{what}: {part}");
    }
    let bits = |numbers: &[f64]| {
        numbers
            .iter()
            .map(|number| number.to_bits())
            .collect::<Vec<_>>()
    };
    for (part, found, expected) in [
        ("losses", &found.losses, &expected.losses),
        ("norms", &found.norms, &expected.norms),
    ] {
        assert_eq!(
            bits(found),
            bits(expected),
            "{what}: {part} {found:?} and {expected:?}"
        );
    }
}
