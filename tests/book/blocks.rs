//! Blocks of configurations can be read, and blocks of commands name subcommands and options that exist.

use crate::pages::{Block, blocks, pages, read};
use fascicle::{registry, train::Config};
use std::{collections::BTreeMap, process::Command};

/// The blocks whose fence names `language`, with the page and line of each. A second word after a comma marks an
/// unusual block: `toml,manifest` is not a configuration.
fn written(language: &str) -> Vec<(String, Block)> {
    let others = ["README.md", "CONTRIBUTING.md"].map(str::to_owned);
    let all = pages().into_iter().chain(others);
    all.flat_map(|page| {
        let (blocks, _) = blocks(&read(&page));
        let found = blocks.into_iter().filter(|block| block.info == language);
        found
            .map(move |block| (format!("{page}:{}", block.line), block))
            .collect::<Vec<_>>()
    })
    .collect()
}

#[test]
fn every_configuration_can_be_read_and_fits_itself() {
    let configurations = written("toml");
    assert!(!configurations.is_empty());
    for (place, block) in configurations {
        // A cargo manifest is not a configuration, but GitHub ignores highlighting with a comma.
        if block.text.starts_with("[dependencies]") {
            continue;
        }
        let config = Config::parse(&block.text, &registry::families())
            .unwrap_or_else(|error| panic!("{place}: {error}"));
        let model = config.model.with_vocabulary(256).unwrap();
        let config = Config { model, ..config };
        config
            .check()
            .unwrap_or_else(|error| panic!("{place}: {error}"));
    }
}

/// The words of a command line after the program's name, up to anything that the shell interprets.
fn words(line: &str) -> Option<Vec<String>> {
    let line = line.split(" #").next().unwrap();
    let mut words = line
        .split_whitespace()
        .map(|word| word.trim_matches(['[', ']']));
    let is_program = |word: &str| word == "fascicle" || word.ends_with("/fascicle");
    words.find(|word| is_program(word))?;
    let ends = |word: &&str| !["|", ">", "2>", "&&", ";", "\\"].contains(word);
    Some(words.take_while(ends).map(str::to_owned).collect())
}

struct Program(BTreeMap<String, String>);

impl Program {
    /// What `fascicle SUBCOMMAND --help` prints.
    fn help(&mut self, subcommand: &str) -> &str {
        self.0.entry(subcommand.to_owned()).or_insert_with(|| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_fascicle"));
            command.args(subcommand.split_whitespace()).arg("--help");
            let output = command.output().unwrap();
            match output.status.success() {
                true => String::from_utf8(output.stdout).unwrap(),
                false => String::new(),
            }
        })
    }

    /// The first thing that a command line names and the program does not have.
    fn unknown(&mut self, words: &[String]) -> Option<String> {
        // What follows is a command of its own, perhaps of this program behind a launcher.
        if let Some(end) = words.iter().position(|word| word == "--") {
            let behind = &words[end..];
            let program = behind.iter().position(|word| word == "fascicle");
            let inner = program.and_then(|at| self.unknown(&behind[at + 1..]));
            return self.unknown(&words[..end]).or(inner);
        }
        let is_name = |word: &&String| word.chars().all(|letter| letter.is_ascii_lowercase());
        let mut subcommand = words.first().filter(is_name)?.clone();
        if self.help(&subcommand).is_empty() {
            return Some(subcommand);
        }
        if let Some(second) = words.get(1).filter(is_name) {
            let longer = format!("{subcommand} {second}");
            // `bench` and `checkpoint` have subcommands, as their usage shows.
            if self.help(&subcommand).contains("<COMMAND>") {
                match self.help(&longer).is_empty() {
                    true => return Some(longer),
                    false => subcommand = longer,
                }
            }
        }
        let help = self.help(&subcommand).to_owned();
        let options = words.iter().filter_map(|word| {
            let name = word.strip_prefix("--")?;
            Some(format!("--{}", name.split('=').next().unwrap()))
        });
        let known = |option: &String| {
            help.split_whitespace()
                .any(|word| word.trim_end_matches(',') == option)
        };
        options
            .into_iter()
            .find(|option| !known(option))
            .map(|option| format!("{subcommand} {option}"))
    }
}

#[test]
fn every_command_names_what_the_program_has() {
    let mut program = Program(BTreeMap::new());
    let mut seen = 0;
    for (place, block) in written("sh").into_iter().chain(written("text")) {
        let joined = block.text.replace("\\\n", " ");
        for words in joined.lines().filter_map(words) {
            seen += 1;
            let unknown = program.unknown(&words);
            assert_eq!(unknown, None, "{place}: {words:?}");
        }
    }
    assert!(seen >= 10, "{seen} commands");
    let wrong = ["train", "--gird"].map(str::to_owned);
    assert_eq!(program.unknown(&wrong).as_deref(), Some("train --gird"));
    let wrong = ["checkpoint", "look"].map(str::to_owned);
    assert_eq!(program.unknown(&wrong).as_deref(), Some("checkpoint look"));
    let wrong = [
        "supervise",
        "--",
        "mpirun",
        "-n",
        "2",
        "fascicle",
        "train",
        "--gird",
    ];
    let wrong = wrong.map(str::to_owned);
    assert_eq!(program.unknown(&wrong).as_deref(), Some("train --gird"));
}
