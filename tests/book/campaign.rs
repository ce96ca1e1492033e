//! The tables of `docs/how-we-test.md` are made from the counts that `ci/campaign.sh` records.

use crate::pages::{before_generated, check_generated, read, table};
use serde_json::Value;

const PAGE: &str = "docs/how-we-test.md";
const COUNTS: &str = "docs/measured/campaign.json";

/// The parts of the campaign in the order of the page, with what each counts.
const PARTS: [(&str, &str); 8] = [
    ("power", "Simulated power cuts"),
    (
        "simulation",
        "Jobs of 2 to 4 ranks under a seeded scheduler; the time includes the build",
    ),
    ("killed", "A run that is killed while it writes checkpoints"),
    ("survive", "Runs that continue after ranks are killed"),
    (
        "soak",
        "Runs that train for hours, with their memory, files and threads watched",
    ),
    ("faults", "Real faults, injected"),
    (
        "fuzz",
        "Inputs tried by fuzzing, for each format; the time of the first includes the build",
    ),
    ("tests", "Tests in the sources"),
];

/// `1234567` as `1,234,567`.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let head = (digits.len() - 1) % 3 + 1;
    let rest = digits.as_bytes()[head..].chunks(3);
    rest.fold(digits[..head].to_owned(), |text, three| {
        text + "," + std::str::from_utf8(three).unwrap()
    })
}

fn part(title: &str, recorded: &Value) -> String {
    let text = |key: &str| recorded[key].as_str().unwrap();
    let counts = recorded["counts"].as_object().unwrap();
    let rows = counts.iter().map(|(name, count)| {
        let count = grouped(count.as_u64().unwrap());
        vec![name.replace('_', " "), count]
    });
    let tried = table(&["what", "number"], rows);
    let (command, commit, date) = (text("command"), text("commit"), text("date"));
    let seconds = grouped(recorded["seconds"].as_u64().unwrap());
    let machine = text("machine");
    format!(
        "
### {title}

`{command}` on {date}, commit {commit}, in {seconds} s on {machine}.

{tried}"
    )
}

// Formats are fuzzed one at a time, for hours, so each has the commit and the day of its own run.
fn fuzzed(title: &str, formats: &[(&str, &Value)]) -> String {
    let rows = formats.iter().map(|(format, recorded)| {
        let number = |value: &Value| grouped(value.as_u64().unwrap());
        let text = |key: &str| recorded[key].as_str().unwrap().to_owned();
        vec![
            format.replace('_', " "),
            number(&recorded["counts"]["inputs"]),
            number(&recorded["seconds"]),
            text("commit"),
            text("date"),
            text("machine"),
        ]
    });
    let columns = ["format", "inputs", "seconds", "commit", "date", "machine"];
    let tried = table(&columns, rows);
    format!(
        "
### {title}

`ci/campaign.sh fuzz=INPUTS:FORMAT` tries one format.

{tried}"
    )
}

#[test]
fn the_counts_of_the_campaign_are_those_recorded() {
    let recorded: Value = serde_json::from_str(&read(COUNTS)).unwrap();
    let mut expected = before_generated(PAGE) + "\n## Counts\n";
    for (key, title) in PARTS {
        // A part that has never run has no counts.
        if let Some(recorded) = recorded.get(key) {
            expected += &part(title, recorded);
        }
        let all = recorded.as_object().unwrap().iter();
        let formats: Vec<_> = all
            .filter_map(|(name, recorded)| {
                let format = name.strip_prefix(key)?.strip_prefix('/')?;
                Some((format, recorded))
            })
            .collect();
        if !formats.is_empty() {
            expected += &fuzzed(title, &formats);
        }
    }
    let known = |key: &String| {
        let part = key.split('/').next();
        PARTS.iter().any(|(known, _)| part == Some(known))
    };
    assert!(recorded.as_object().unwrap().keys().all(known), "{COUNTS}");
    check_generated(PAGE, &expected);
}

#[test]
fn numbers_are_grouped_by_thousands() {
    let said = [0, 12, 999, 1000, 12_345, 1_234_567].map(grouped);
    assert_eq!(said, ["0", "12", "999", "1,000", "12,345", "1,234,567"]);
}
