//! Several ranks in a sentence.

/// `rank 3`, `ranks 0 and 2`, `ranks 1 to 7 and 9`.
pub(crate) fn named(mut ranks: Vec<usize>) -> String {
    ranks.sort_unstable();
    ranks.dedup();
    let runs: Vec<String> = ranks
        .chunk_by(|one, next| one + 1 == *next)
        .flat_map(|run| match run {
            [first, .., last] if run.len() > 2 => vec![format!("{first} to {last}")],
            few => few.iter().map(usize::to_string).collect(),
        })
        .collect();
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    match runs.split_last() {
        Some((last, before)) if !before.is_empty() => {
            format!("{noun} {} and {last}", before.join(", "))
        }
        _ => format!("{noun} {}", runs.concat()),
    }
}

/// Items with equal keys together, in the order in which the keys first appear.
pub(crate) fn grouped<K: PartialEq, T>(
    items: impl IntoIterator<Item = (K, T)>,
) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, item) in items {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_a_run() {
        for (ranks, text) in [
            (vec![3], "rank 3"),
            (vec![2, 0], "ranks 0 and 2"),
            (vec![4, 5], "ranks 4 and 5"),
            ((1..2000).collect(), "ranks 1 to 1999"),
            (vec![9, 1, 2, 3, 12], "ranks 1 to 3, 9 and 12"),
        ] {
            assert_eq!(named(ranks), text);
        }
    }

    #[test]
    fn groups_keep_the_order_of_their_keys() {
        let groups = grouped([("b", 1), ("a", 2), ("b", 3)]);
        assert_eq!(groups, [("b", vec![1, 3]), ("a", vec![2])]);
    }
}
