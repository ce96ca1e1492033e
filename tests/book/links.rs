//! Every relative link of the pages leads to a file, and every anchor to a heading of it.

use crate::pages::{blocks, pages, read, root};
use std::path::{Component, Path, PathBuf};

const OTHERS: [&str; 5] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/SUMMARY.md",
];

/// The targets of `[text](target)`.
fn links(prose: &str) -> Vec<String> {
    let targets = prose.split("](").skip(1);
    targets
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.to_owned())
        .collect()
}

/// The anchor of a heading: lower case, punctuation dropped, spaces as hyphens; the same on GitHub and in mdBook.
fn anchor(heading: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter(kept)
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

fn anchors(page: &str) -> Vec<String> {
    let (_, prose) = blocks(page);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| anchor(line.trim_start_matches('#')))
        .collect()
}

/// `docs/../README.md` as `README.md`.
fn plain(path: &Path) -> PathBuf {
    path.components()
        .fold(PathBuf::new(), |mut plain, component| {
            match component {
                Component::ParentDir => drop(plain.pop()),
                other => plain.push(other),
            }
            plain
        })
}

/// What is wrong with a link of that page, if anything.
fn fault(page: &str, text: &str, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let (target, text) = match file {
        "" => (PathBuf::from(page), text.to_owned()),
        _ => {
            let target = plain(&Path::new(page).parent().unwrap().join(file));
            let path = root(target.to_str().unwrap());
            if !path.exists() {
                return Some(format!("{page}: {link}: no file {}", target.display()));
            }
            let text = std::fs::read_to_string(path).unwrap_or_default();
            (target, text)
        }
    };
    let missing = !heading.is_empty() && !anchors(&text).iter().any(|known| known == heading);
    missing.then(|| format!("{page}: {link}: no such heading in {}", target.display()))
}

#[test]
fn every_link_and_anchor_leads_somewhere() {
    let all = pages().into_iter().chain(OTHERS.map(str::to_owned));
    let faults: Vec<String> = all
        .flat_map(|page| {
            let text = read(&page);
            let (_, prose) = blocks(&text);
            let found = links(&prose).into_iter();
            found
                .filter_map(|link| fault(&page, &text, &link))
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The words in back quotes that name a file or folder of the repository.
fn paths(prose: &str) -> Vec<&str> {
    const FOLDERS: [&str; 6] = ["ci/", "crates/", "docs/", "examples/", "src/", "tests/"];
    let is_plain = |word: &str| {
        word.chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "/._-".contains(letter))
    };
    prose
        .split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|code| code.split_whitespace().next())
        .filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)) && is_plain(word))
        .collect()
}

#[test]
fn every_path_that_a_page_names_exists() {
    let all = pages().into_iter().chain(OTHERS.map(str::to_owned));
    for page in all.filter(|page| page != "CHANGELOG.md") {
        let (_, prose) = blocks(&read(&page));
        for path in paths(&prose) {
            assert!(root(path).exists(), "{page}: no {path}");
        }
    }
    let found = paths("`ci/a.sh --full`, `x=2`, `crates/b`, `tests/*`");
    assert_eq!(found, ["ci/a.sh", "crates/b"]);
}

#[test]
fn a_wrong_link_is_found() {
    let text = "# One\n\nSee [there](#two).\n";
    assert_eq!(links(text), ["#two"]);
    assert!(fault("docs/first-model.md", text, "#two").is_some());
    assert!(fault("docs/first-model.md", text, "#one").is_none());
    assert!(fault("docs/first-model.md", text, "nowhere.md").is_some());
    assert!(fault("docs/first-model.md", text, "../README.md#two-commands").is_none());
    assert_eq!(anchor(" Rows of a batch, and `Z`"), "rows-of-a-batch-and-z");
}
