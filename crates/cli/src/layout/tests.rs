use super::*;
use proptest::prelude::*;

fn at(columns: usize, text: &str) -> Vec<String> {
    let wrapped = wrapped(text, Some(columns));
    wrapped.lines().map(str::to_owned).collect()
}

#[test]
fn what_continues_a_line_stands_below_its_words() {
    assert_eq!(
        at(24, "model      GPT-2: 4 layers, 128 wide"),
        [
            "model      GPT-2: 4",
            "           layers, 128",
            "           wide"
        ]
    );
    assert_eq!(
        at(24, "fascicle: found 7, needs a string"),
        ["fascicle: found 7, needs", "  a string"]
    );
    assert_eq!(
        at(20, "  the meaning of a key"),
        ["  the meaning of a", "    key"]
    );
    assert_eq!(
        at(20, "    the meaning of a key"),
        ["    the meaning of a", "    key"]
    );
}

#[test]
fn a_row_whose_last_cell_begins_far_to_the_right_is_indented() {
    assert_eq!(
        at(24, "a name     12.5 ms and the rest"),
        ["a name     12.5 ms and", "           the rest"]
    );
    assert_eq!(
        at(24, "a longer name     is too far to the right"),
        ["a longer name     is too", "  far to the right"]
    );
}

#[test]
fn rows_break_between_cells_and_numbers_keep_their_units() {
    assert_eq!(
        at(24, "name  16 x 16  [x z | y]  1.0 KiB"),
        ["name  16 x 16  [x z | y]", "               1.0 KiB"]
    );
    assert_eq!(
        at(24, "name  12  a cell that is longer than a line"),
        [
            "name  12  a cell that is",
            "          longer than a",
            "          line"
        ]
    );
    assert_eq!(
        at(22, "it took in the end 3.5 s, no more"),
        ["it took in the end", "  3.5 s, no more"]
    );
}

#[test]
fn comments_and_quotations_stay_what_they_are() {
    assert_eq!(
        at(20, "# What the key means\n  | what a model writes here"),
        [
            "# What the key means",
            "  | what a model",
            "  | writes here"
        ]
    );
    assert_eq!(
        at(20, "# What any key here means"),
        ["# What any key here", "# means"]
    );
}

#[test]
fn a_word_that_is_longer_than_a_line_stays_whole() {
    assert_eq!(
        at(20, "see /a/path/that/is/longer/than/a/line for more"),
        ["see", "  /a/path/that/is/longer/than/a/line", "  for more"]
    );
}

#[test]
fn nothing_changes_where_no_terminal_reads() {
    let text = "a line  that is longer than twenty columns";
    assert!(matches!(wrapped(text, None), Cow::Borrowed(_)));
    assert!(matches!(wrapped(text, Some(80)), Cow::Borrowed(_)));
}

proptest! {
    #[test]
    fn every_word_is_kept_and_no_line_is_too_long(
        text in "([a-zé漢]{1,30} {0,3}|# |\\| |\n){0,40}",
        columns in 20usize..100,
    ) {
        let found = wrapped(&text, Some(columns));
        let is_mark = |word: &&str| !matches!(*word, "#" | "|");
        let words: Vec<&str> = text.split_whitespace().filter(is_mark).collect();
        let kept: Vec<&str> = found.split_whitespace().filter(is_mark).collect();
        prop_assert_eq!(kept, words);
        for line in found.lines() {
            let is_one_word = line.split_whitespace().filter(is_mark).count() <= 1;
            prop_assert!(width(line) <= columns || is_one_word, "{}", line);
        }
    }
}
