//! The definition of the program's arguments with what helps people: commands by topic, options by heading, and examples.
//!
//! Parsing, `--help` and completions read [`command`], man pages [`plain`].

mod words;

use crate::Arguments;
use clap::CommandFactory;
use std::fmt::Write;
use words::{EXAMPLES, FIRST, HEADINGS, TOPICS};

/// Columns of the narrowest terminal for which help is laid out.
const NARROW: usize = 60;

/// The most examples of a command.
const MOST_EXAMPLES: usize = 3;

/// The program's arguments, laid out for terminals.
pub(crate) fn command() -> clap::Command {
    let mut command = plain();
    command.build();
    with_narrow_usage(command)
}

/// The program's arguments, without what clap adds when it parses.
pub(crate) fn plain() -> clap::Command {
    let mut command = Arguments::command();
    for (name, heading, options) in HEADINGS {
        command = command.mut_subcommand(name, |command| {
            options.iter().fold(command, |command, option| {
                command.mut_arg(option, |option| option.help_heading(*heading))
            })
        });
    }
    command = with_negative_numbers(command);
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}Options:\n{{options}}{{after-help}}",
        topics(&command)
    );
    let names: Vec<String> = command.get_subcommands().map(name).collect();
    for name in names {
        command = command.mut_subcommand(&name, |command| with_examples(command, &name));
    }
    command.help_template(template).after_help(listed(&FIRST))
}

// A value of an option may be a number below 0, which an error then names with its option: no flag looks like a number.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    command
        .mut_args(|argument| {
            let takes = !argument.is_positional() && argument.get_action().takes_values();
            match takes {
                true => argument.allow_negative_numbers(true),
                false => argument,
            }
        })
        .mut_subcommands(with_negative_numbers)
}

// clap wraps everything but the line of usage.
fn with_narrow_usage(mut command: clap::Command) -> clap::Command {
    let usage = command.render_usage().to_string();
    if usage.lines().any(|line| line.chars().count() > NARROW) {
        let usage = usage.trim_start_matches("Usage:");
        command = command.override_usage(wrapped(usage));
    }
    let names: Vec<String> = command.get_subcommands().map(name).collect();
    let others = names.iter().filter(|name| *name != "help");
    others.fold(command, |command, name| {
        command.mut_subcommand(name, with_narrow_usage)
    })
}

// In lines that fit the narrowest terminal, behind `Usage: `.
fn wrapped(usage: &str) -> String {
    let (indent, mut lines) = (" ".repeat("Usage: ".len()), vec![String::new()]);
    for word in usage.split_whitespace() {
        let last = lines.last_mut().expect("there is a line");
        if !last.is_empty() && indent.len() + last.len() + 1 + word.len() > NARROW {
            lines.push(word.to_owned());
        } else {
            last.push_str(if last.is_empty() { "" } else { " " });
            last.push_str(word);
        }
    }
    lines.join(&format!("\n{indent}"))
}

fn name(command: &clap::Command) -> String {
    command.get_name().to_owned()
}

// The commands by topic, with what each does.
fn topics(command: &clap::Command) -> String {
    let mut text = String::new();
    for (topic, names) in TOPICS {
        let _ = writeln!(text, "{topic}:");
        for name in names {
            let found = command.find_subcommand(name);
            let about = found.and_then(clap::Command::get_about);
            let _ = writeln!(
                text,
                "  {name:<13}{}",
                about.map_or_else(String::new, ToString::to_string)
            );
        }
        text.push('\n');
    }
    text
}

// With the examples that begin with these words, for itself and for the commands in it.
fn with_examples(mut command: clap::Command, words: &str) -> clap::Command {
    let names: Vec<String> = command.get_subcommands().map(name).collect();
    for name in names {
        let words = format!("{words} {name}");
        command = command.mut_subcommand(&name, |command| with_examples(command, &words));
    }
    let begin = format!("fascicle {words}");
    let own = EXAMPLES.iter().copied().filter(|example| {
        let rest = example.strip_prefix(&begin);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    });
    let own: Vec<&str> = own.take(MOST_EXAMPLES).collect();
    command.after_help(listed(&own))
}

fn listed(examples: &[&str]) -> String {
    let lines = examples.iter().map(|example| format!("\n  {example}"));
    format!("Examples:{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    // The command and all in it, with the options that they inherit.
    fn all(command: &clap::Command) -> Vec<clap::Command> {
        let mut found = vec![command.clone()];
        let inside = command.get_subcommands();
        let inside = inside.filter(|command| command.get_name() != "help");
        found.extend(inside.flat_map(all));
        found
    }

    #[test]
    fn no_help_is_wider_than_its_terminal_or_breaks_a_word() {
        for command in all(&command()) {
            let text = |width: usize, is_long: bool| {
                let mut command = command.clone().term_width(width);
                let help = match is_long {
                    true => command.render_long_help(),
                    false => command.render_help(),
                };
                help.to_string()
            };
            for is_long in [false, true] {
                let wide = text(100_000, is_long);
                let words: Vec<&str> = wide.split_whitespace().collect();
                for width in [60, 80, 120] {
                    let narrow = text(width, is_long);
                    let found: Vec<&str> = narrow.split_whitespace().collect();
                    assert_eq!(found, words, "a word is broken");
                    for line in narrow.lines() {
                        let is_one_word = line.split_whitespace().count() == 1;
                        assert!(
                            line.chars().count() <= width || is_one_word,
                            "{}, {width} columns: {line}",
                            command.get_name()
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn every_command_has_a_topic_and_every_long_one_headings() {
        let command = command();
        let in_topics = TOPICS.iter().flat_map(|(_, names)| names.iter());
        let mut in_topics: Vec<&str> = in_topics.copied().collect();
        let mut names: Vec<String> = command.get_subcommands().map(name).collect();
        names.retain(|name| name != "help");
        in_topics.sort_unstable();
        names.sort_unstable();
        assert_eq!(in_topics, names);
        for name in ["train", "generate", "eval", "serve", "plan"] {
            let options = command.find_subcommand(name).unwrap().get_arguments();
            let bare: Vec<&str> = options
                .filter(|option| !option.is_positional() && option.get_help_heading().is_none())
                .map(|option| option.get_id().as_str())
                .collect();
            assert!(bare.len() <= 4, "{name}: {bare:?}");
        }
    }

    #[test]
    fn every_command_has_an_example_and_every_example_is_valid() {
        for command in all(&command()) {
            let after = command.get_after_help().unwrap().to_string();
            assert!(after.contains("\n  fascicle "), "{}", command.get_name());
        }
        for example in EXAMPLES.iter().chain(&FIRST[..2]) {
            let line = example.split(" > ").next().unwrap().replace('\'', "");
            let parsed = command().try_get_matches_from(line.split(' '));
            // A prompt of two words has lost its marks.
            if !example.contains('\'') {
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
    }
}
