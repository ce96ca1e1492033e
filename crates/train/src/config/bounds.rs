//! Bounds of the numbers in a configuration.

use crate::{Error, Result};
use std::{ops::RangeInclusive, path::Path};

/// The finite numbers that a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Above 0.
    Positive,
    /// 0 and above.
    NotNegative,
    /// From 0 to below 1.
    Share,
}

impl Numbers {
    fn contains(self, number: f64) -> bool {
        match self {
            Numbers::Positive => number.is_finite() && number > 0.0,
            Numbers::NotNegative => number.is_finite() && number >= 0.0,
            Numbers::Share => (0.0..1.0).contains(&number),
        }
    }

    const fn needed(self) -> &'static str {
        match self {
            Numbers::Positive => "a number above 0",
            Numbers::NotNegative => "a number of at least 0",
            Numbers::Share => "a number from 0 to below 1",
        }
    }
}

/// Checks numbers of a table, each a key with its value and what it takes.
///
/// # Errors
/// [`Error::Setting`] for the first number that its key does not take.
pub fn check_numbers(table: &str, numbers: &[(&str, f64, Numbers)]) -> Result<()> {
    let wrong = |(_, found, taken): &&(&str, f64, Numbers)| !taken.contains(*found);
    match numbers.iter().find(wrong) {
        None => Ok(()),
        Some((key, found, taken)) => Err(Error::setting(
            format!("{table}.{key}"),
            found,
            taken.needed(),
        )),
    }
}

/// Checks counts of a table, each a key with its value and the values it takes.
///
/// # Errors
/// [`Error::Setting`] for the first count outside its bounds, with the bound that it misses.
pub fn check_counts(table: &str, counts: &[(&str, usize, RangeInclusive<usize>)]) -> Result<()> {
    for (key, found, taken) in counts {
        let needed = match taken {
            taken if taken.contains(found) => continue,
            taken if found < taken.start() => format!("at least {}", taken.start()),
            taken => format!("at most {}", taken.end()),
        };
        return Err(Error::setting(format!("{table}.{key}"), found, needed));
    }
    Ok(())
}

/// Checks that a path can stand in a configuration.
///
/// # Errors
/// [`Error::Setting`] for one that is not UTF-8.
pub(super) fn check_path(key: &str, path: Option<&Path>) -> Result<()> {
    match path.filter(|path| path.to_str().is_none()) {
        None => Ok(()),
        Some(path) => {
            let needed = "a path in UTF-8, because the run records it";
            Err(Error::setting(key, format!("{path:?}"), needed))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_outside_is_named() {
        let check =
            |number, taken| check_numbers("a", &[("good", 0.5, taken), ("b", number, taken)]);
        for (taken, inside, outside) in [
            (Numbers::Positive, 1e-300, [0.0, -1.0, f64::INFINITY]),
            (Numbers::NotNegative, 0.0, [-1e-300, f64::INFINITY, -1.0]),
            (Numbers::Share, 0.0, [1.0, -1e-300, f64::INFINITY]),
        ] {
            assert!(check(inside, taken).is_ok(), "{inside} in {taken:?}");
            for number in outside.into_iter().chain([f64::NAN]) {
                let error = check(number, taken).unwrap_err().to_string();
                let sentence = format!("a.b: found {number}, needs {}", taken.needed());
                assert_eq!(error, sentence);
            }
        }
    }

    #[test]
    fn the_bound_that_a_count_misses_is_named() {
        let check = |count| check_counts("a", &[("b", count, 2..=5)]);
        assert!((2..=5).all(|count| check(count).is_ok()));
        let sentence = |count| check(count).unwrap_err().to_string();
        assert_eq!(sentence(1), "a.b: found 1, needs at least 2");
        assert_eq!(sentence(6), "a.b: found 6, needs at most 5");
    }
}
