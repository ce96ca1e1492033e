//! What a misspelt key was meant to be.

/// The word of `known` that is nearest to `found`, if one is near enough to have been meant.
///
/// Letter case, `-` and `_` do not count. Short words must be nearer: one slip in up to four letters, two in up to
/// eight, three in longer ones. Of equally near words the first of `known` is taken.
pub fn nearest<'a>(found: &str, known: &[&'a str]) -> Option<&'a str> {
    let found = letters(found);
    let slips = |word: &str| distance(&found, &letters(word));
    let (best, word) = known
        .iter()
        .map(|&word| (slips(word), word))
        .min_by_key(|&(slips, _)| slips)?;
    (best <= allowed_slips(found.len()) && best < letters(word).len().max(1)).then_some(word)
}

fn letters(word: &str) -> Vec<char> {
    word.chars()
        .filter(|letter| !matches!(letter, '-' | '_'))
        .flat_map(char::to_lowercase)
        .collect()
}

fn allowed_slips(length: usize) -> usize {
    match length {
        0..=4 => 1,
        5..=8 => 2,
        _ => 3,
    }
}

/// How many slips lead from one word to the other: a letter too many, missing, wrong, or swapped with the next.
///
/// # Source
/// Damerau (1964) and Levenshtein (1966), in the restricted form that changes no pair of letters twice.
fn distance(from: &[char], to: &[char]) -> usize {
    let mut before_last = vec![0; to.len() + 1];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for row in 1..=from.len() {
        let mut current = vec![row; to.len() + 1];
        for column in 1..=to.len() {
            let is_same = from[row - 1] == to[column - 1];
            let one_letter = (last[column] + 1).min(current[column - 1] + 1);
            current[column] = one_letter.min(last[column - 1] + usize::from(!is_same));
            if is_swap(from, to, row, column) {
                current[column] = current[column].min(before_last[column - 2] + 1);
            }
        }
        (before_last, last) = (last, current);
    }
    last[to.len()]
}

/// Whether the words' last two letters up to there are each other's, swapped.
fn is_swap(from: &[char], to: &[char], row: usize, column: usize) -> bool {
    row > 1 && column > 1 && from[row - 1] == to[column - 2] && from[row - 2] == to[column - 1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEYS: [&str; 8] = [
        "learning_rate",
        "seed",
        "steps",
        "global_batch",
        "context",
        "heads",
        "hidden",
        "lr",
    ];

    #[test]
    fn slips_are_seen_through() {
        for (found, meant) in [
            ("learnig_rate", "learning_rate"),
            ("learning-rate", "learning_rate"),
            ("LearningRate", "learning_rate"),
            ("sede", "seed"),
            ("stpes", "steps"),
            ("global_bacth", "global_batch"),
            ("contxt", "context"),
            ("hiden", "hidden"),
            ("lt", "lr"),
        ] {
            assert_eq!(nearest(found, &KEYS), Some(meant), "{found}");
        }
    }

    #[test]
    fn other_words_get_no_suggestion() {
        for found in ["colour", "x", "", "zz", "optimizer"] {
            assert_eq!(nearest(found, &KEYS), None, "{found}");
        }
        assert_eq!(nearest("seed", &[]), None);
    }

    #[test]
    fn ties_go_to_the_first() {
        assert_eq!(nearest("bat", &["cat", "rat"]), Some("cat"));
    }

    #[test]
    fn distances_by_hand() {
        let of = |from: &str, to: &str| distance(&letters(from), &letters(to));
        assert_eq!(
            [
                of("", "abc"),
                of("abc", "abc"),
                of("ab", "ba"),
                of("ca", "abc"),
                of("kitten", "sitting")
            ],
            [3, 0, 1, 3, 3]
        );
    }

    proptest! {
        #[test]
        fn distance_is_symmetric_and_bounded(from in "[abc]{0,8}", to in "[abc]{0,8}") {
            let (from, to) = (letters(&from), letters(&to));
            let slips = distance(&from, &to);
            prop_assert_eq!(slips, distance(&to, &from));
            prop_assert!(slips >= from.len().abs_diff(to.len()) && slips <= from.len().max(to.len()));
            prop_assert_eq!(slips == 0, from == to);
        }

        #[test]
        fn a_known_word_is_its_own_suggestion(at in 0usize..8) {
            prop_assert_eq!(nearest(KEYS[at], &KEYS), Some(KEYS[at]));
        }
    }
}
