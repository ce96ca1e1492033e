//! The pages of the manual, and the content of their code blocks.

use std::{collections::BTreeSet, fs, path::PathBuf};

/// A file below the root of the repository.
pub fn root(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

pub fn read(path: &str) -> String {
    fs::read_to_string(root(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The command that renews the generated parts of pages.
pub const RENEW: &str = "RENEW_DOCS=1 cargo test --test book";

/// Compares a page with the `expected` one, which it becomes if `RENEW_DOCS` is set.
pub fn check_generated(path: &str, expected: &str) {
    if std::env::var_os("RENEW_DOCS").is_some() {
        fs::write(root(path), expected).unwrap();
    }
    assert!(
        read(path) == expected,
        "{path} is stale; renew it with: {RENEW}"
    );
}

/// A page up to the comment, ended by `-->`, that says what the rest is made from.
pub fn before_generated(path: &str) -> String {
    const BEGIN: &str = "<!-- The tables below are made from";
    let page = read(path);
    let begin = page
        .find(BEGIN)
        .expect("a line that says where the tables begin");
    let end = begin + page[begin..].find("-->\n").unwrap() + "-->\n".len();
    page[..end].to_owned()
}

/// A table in Markdown.
pub fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let row = |cells: &[String]| {
        format!(
            "| {} |
",
            cells.join(" | ")
        )
    };
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let line = format!(
        "|{}
",
        "---|".repeat(head.len())
    );
    row(&head)
        + &line
        + &rows
            .into_iter()
            .map(|cells| row(&cells))
            .collect::<String>()
}

/// The pages in `docs/`, as paths from the root, without the table of contents.
pub fn pages() -> Vec<String> {
    let names = fs::read_dir(root("docs")).unwrap();
    let mut pages: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".md") && name != "SUMMARY.md")
        .map(|name| format!("docs/{name}"))
        .collect();
    pages.sort();
    pages
}

/// A code block: the text after its opening fence, the number of its first line, its content.
pub struct Block {
    pub info: String,
    pub line: usize,
    pub text: String,
}

/// The code blocks of a page, and the page without them.
pub fn blocks(page: &str) -> (Vec<Block>, String) {
    let (mut blocks, mut prose) = (Vec::<Block>::new(), String::new());
    let mut open = false;
    for (index, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), open) {
            (Some(info), false) => blocks.push(Block {
                info: info.trim().to_owned(),
                line: index + 2,
                text: String::new(),
            }),
            (Some(_), true) => {}
            (None, true) => {
                let block = blocks.last_mut().unwrap();
                block.text += line;
                block.text += "\n";
            }
            (None, false) => prose += line,
        }
        open ^= line.starts_with("```");
        prose += "\n";
    }
    assert!(!open, "a block of code without an end:\n{page}");
    (blocks, prose)
}

#[test]
fn the_table_of_contents_lists_every_page_once() {
    let contents = read("docs/SUMMARY.md");
    let listed: Vec<String> = contents
        .split("](")
        .skip(1)
        .map(|rest| format!("docs/{}", rest.split(')').next().unwrap()))
        .collect();
    let unique: BTreeSet<&String> = listed.iter().collect();
    assert_eq!(unique.len(), listed.len(), "a page is listed twice");
    assert_eq!(
        unique.into_iter().cloned().collect::<Vec<_>>(),
        pages(),
        "docs/SUMMARY.md and the files of docs/"
    );
}

#[test]
fn every_page_with_rust_is_a_doc_test() {
    let tested = read("src/manual.rs");
    for page in pages() {
        let (blocks, _) = blocks(&read(&page));
        let has_rust = blocks
            .iter()
            .any(|block| block.info.is_empty() || block.info.starts_with("rust"));
        let included = tested.contains(&format!("\"../{page}\""));
        assert_eq!(has_rust, included, "{page}: has Rust, is in src/manual.rs");
    }
}

#[test]
fn no_rust_of_the_manual_is_left_out_of_the_tests() {
    for page in pages() {
        for block in blocks(&read(&page)).0 {
            let skips = ["ignore", "no_run", "compile_fail"];
            assert!(
                !skips.iter().any(|word| block.info.contains(word)),
                "{page}:{}: `{}`",
                block.line,
                block.info
            );
        }
    }
}
