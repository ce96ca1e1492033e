//! Suggestions for error messages: the nearest spelling of a word, the nearest degrees of a grid.

use crate::{Axis, Degrees};

/// How many grids a message suggests.
pub(crate) const NUM_SUGGESTIONS: usize = 3;

/// The candidate that needs the fewest edits, or `None` if more than half of the word would change.
pub(crate) fn nearest_name<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let distances = candidates.map(|name| (edit_distance(word, name), name));
    let (distance, name) = distances.min_by_key(|(distance, _)| *distance)?;
    (2 * distance <= word.chars().count()).then_some(name)
}

/// The few candidates nearest to `target`, nearest first; ties in the order of [`Degrees`].
pub(crate) fn nearest_degrees(target: &Degrees, candidates: Vec<Degrees>) -> Vec<Degrees> {
    let mut ranked: Vec<_> = candidates
        .into_iter()
        .map(|found| (log_distance(target, &found), found))
        .collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    ranked
        .into_iter()
        .take(NUM_SUGGESTIONS)
        .map(|(_, found)| found)
        .collect()
}

/// The number of doublings and halvings that lead from one grid to the other, summed over the axes.
fn log_distance(a: &Degrees, b: &Degrees) -> f64 {
    Axis::ALL
        .iter()
        .map(|&axis| (a.get(axis) as f64 / b.get(axis) as f64).log2().abs())
        .sum()
}

/// Levenshtein's distance: insertions, deletions and replacements of one character.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distance_of_known_pairs() {
        for (a, b, distance) in [
            ("", "", 0),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("data", "dta", 1),
        ] {
            assert_eq!(edit_distance(a, b), distance, "{a} {b}");
            assert_eq!(edit_distance(b, a), distance, "{b} {a}");
        }
    }

    #[test]
    fn a_far_word_gets_no_suggestion() {
        assert_eq!(nearest_name("expert", ["x", "data"].into_iter()), None);
        assert_eq!(nearest_name("dat", ["x", "data"].into_iter()), Some("data"));
    }

    #[test]
    fn nearest_degrees_change_as_little_as_they_can() {
        let target = Degrees {
            x: 3,
            ..Degrees::default()
        };
        let found = nearest_degrees(&target, crate::factorisations(4));
        assert_eq!(found.len(), NUM_SUGGESTIONS);
        assert_eq!(
            found[0],
            Degrees {
                x: 4,
                ..Degrees::default()
            }
        );
        assert!(found[1..].iter().all(|degrees| degrees.x == 2));
    }
}
