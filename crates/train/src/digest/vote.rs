//! Which of several copies is wrong.

use std::collections::BTreeMap;

/// The ranks that are wrong among those that should hold the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All agree.
    Agreed,
    /// More than half of the copies agree; these ranks hold something else.
    Outvoted(Vec<usize>),
    /// No value has more than half of the copies.
    Split,
}

/// Compares what each rank holds.
pub(super) fn vote(copies: &BTreeMap<usize, u64>) -> Verdict {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for value in copies.values() {
        *counts.entry(*value).or_default() += 1;
    }
    if counts.len() <= 1 {
        return Verdict::Agreed;
    }
    match counts.iter().find(|(_, count)| 2 * **count > copies.len()) {
        Some((most, _)) => {
            let others = copies.iter().filter(|(_, value)| *value != most);
            Verdict::Outvoted(others.map(|(rank, _)| *rank).collect())
        }
        None => Verdict::Split,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[u64]) -> Verdict {
        vote(&values.iter().copied().enumerate().collect())
    }

    #[test]
    fn more_than_half_outvote_the_others() {
        assert_eq!(of(&[]), Verdict::Agreed);
        assert_eq!(of(&[7]), Verdict::Agreed);
        assert_eq!(of(&[7, 7]), Verdict::Agreed);
        assert_eq!(of(&[7, 8]), Verdict::Split);
        assert_eq!(of(&[7, 8, 7]), Verdict::Outvoted(vec![1]));
        assert_eq!(of(&[7, 8, 9, 7]), Verdict::Split);
        assert_eq!(of(&[7, 8, 9, 7, 7]), Verdict::Outvoted(vec![1, 2]));
    }
}
