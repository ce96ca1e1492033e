//! The definition of the program's arguments with what helps people: commands by topic, options by heading, and examples.
//!
//! Parsing, `--help` and completions read [`command`], man pages [`plain`].

use crate::Arguments;
use clap::CommandFactory;
use std::fmt::Write;

/// The commands by topic.
const TOPICS: [(&str, &[&str]); 6] = [
    ("Training", &["train", "supervise", "watch"]),
    (
        "Trained models",
        &["generate", "eval", "serve", "checkpoint"],
    ),
    ("Machines and grids", &["plan", "bench", "doctor"]),
    (
        "Past runs",
        &["compare", "report", "metrics", "diff", "replay"],
    ),
    ("Inputs of runs", &["config", "data"]),
    ("Shells", &["completions", "man"]),
];

/// Options that stand under a heading of their own, by command; the others stand under `Options`.
const HEADINGS: &[(&str, &str, &[&str])] = &[
    (
        "train",
        "Where a run begins",
        &["out", "resume", "auto_resume", "init_from", "allow_changes"],
    ),
    (
        "train",
        "Ranks and grid",
        &[
            "ranks", "grid", "schedule", "sharding", "overlap", "threads", "timeout", "plan",
            "machine",
        ],
    ),
    (
        "train",
        "Data and training",
        &[
            "data",
            "steps",
            "batch",
            "micro_batches",
            "precision",
            "seed",
            "settings",
        ],
    ),
    (
        "train",
        "Looking into a step",
        &["explain", "trace", "record"],
    ),
    (
        "generate",
        "Texts",
        &[
            "prompt",
            "prompt_file",
            "chat",
            "chat_template",
            "system",
            "tokens",
            "stop",
            "end",
        ],
    ),
    (
        "generate",
        "Sampling",
        &[
            "temperature",
            "top_k",
            "top_p",
            "min_p",
            "repetition_penalty",
            "seed",
            "logprobs",
        ],
    ),
    (
        "generate",
        "Ranks",
        &["grid", "ranks", "threads", "weights"],
    ),
    (
        "eval",
        "Texts and questions",
        &[
            "text",
            "tasks",
            "samples",
            "stride",
            "prefix",
            "delimiter",
            "batch",
        ],
    ),
    ("eval", "Ranks", &["grid", "ranks", "threads", "weights"]),
    ("serve", "Ranks", &["grid", "ranks", "threads", "weights"]),
    (
        "serve",
        "Clients",
        &["address", "port", "keys", "name", "chat_template"],
    ),
    (
        "serve",
        "Limits",
        &[
            "most_tokens",
            "sequences",
            "queue",
            "prefill",
            "kept_tokens",
            "body_bytes",
            "connections",
            "timeout",
            "client_timeout",
            "grace",
        ],
    ),
    (
        "plan",
        "Machine and model",
        &[
            "machine",
            "devices",
            "model",
            "layers",
            "hidden",
            "heads",
            "vocabulary",
            "batch_tokens",
            "sequence",
            "precision",
            "optimiser",
        ],
    ),
    (
        "plan",
        "Candidates",
        &[
            "allow_pipeline",
            "grid",
            "order",
            "micro_batches",
            "recompute",
            "schedule",
            "sharding",
            "keep_gathered",
            "sequence_parallel",
            "context_attention",
            "budget",
        ],
    ),
    (
        "plan",
        "Memory",
        &[
            "optimiser_place",
            "weight_place",
            "gradient_place",
            "activation_place",
            "memory",
            "memory_limit",
        ],
    ),
    (
        "plan",
        "The program that is simulated",
        &[
            "settings",
            "gather_wide",
            "gradient_wire",
            "reproducible",
            "overlap",
            "untuned",
            "stored_scores",
        ],
    ),
    ("plan", "Output", &["trace", "compare", "json"]),
];

/// Commands that do something. Each is shown with every command whose words it begins with.
const EXAMPLES: &[&str] = &[
    "fascicle train",
    "fascicle train my.toml --grid x=2,data=2 --out runs/a",
    "fascicle train --resume runs/a --steps 2000",
    "fascicle supervise -- fascicle train --out a --auto-resume",
    "fascicle supervise --hosts a:4,b:4 -- sh run.sh {hosts}",
    "fascicle watch runs/a",
    "fascicle watch runs/a --wait 3600",
    "fascicle generate --checkpoint runs/a --prompt 'fn main'",
    "fascicle generate --checkpoint runs/a --chat",
    "fascicle eval --checkpoint runs/a --text held-out.txt",
    "fascicle eval --checkpoint runs/a --tasks arc.jsonl --json",
    "fascicle serve --checkpoint runs/a",
    "fascicle serve --checkpoint runs/a --port 80 --keys keys",
    "fascicle checkpoint inspect runs/a",
    "fascicle checkpoint verify runs/a",
    "fascicle checkpoint digest runs/a --tensors",
    "fascicle checkpoint diff runs/a runs/b",
    "fascicle checkpoint audit runs/a runs/b",
    "fascicle checkpoint recover runs/a",
    "fascicle checkpoint reshard runs/a --grid x=4 --out b",
    "fascicle checkpoint import qwen2 --out runs/qwen2",
    "fascicle checkpoint export runs/a --out a.safetensors",
    "fascicle plan --machine alps --devices 64 --model gpt-5b",
    "fascicle plan --machine a.toml --devices 2 --model b.toml",
    "fascicle bench gemm",
    "fascicle bench kernels --json",
    "fascicle bench collectives",
    "fascicle bench step --json",
    "fascicle bench generate",
    "fascicle bench --save here.toml",
    "fascicle doctor",
    "fascicle doctor --environment",
    "fascicle compare runs/a runs/b",
    "fascicle compare runs/a runs/b --json",
    "fascicle report runs/a",
    "fascicle report runs/a runs/b --out both.html",
    "fascicle metrics runs/a",
    "fascicle metrics runs/a runs/b --tensorboard board",
    "fascicle diff runs/a runs/b",
    "fascicle diff runs/a runs/b --json",
    "fascicle replay runs/a/rank-3.recording",
    "fascicle replay runs/a/rank-3.recording --json",
    "fascicle config list learning_rate",
    "fascicle config check my.toml",
    "fascicle config show my.toml --grid x=2",
    "fascicle data tokenize texts --out tokens",
    "fascicle data verify tokens",
    "fascicle completions bash > ~/.fascicle-completion",
    "fascicle completions fish",
    "fascicle man ~/.local/share/man/man1",
    "fascicle man man1",
];

/// Those of the program itself.
const FIRST: [&str; 3] = [
    "fascicle train",
    "fascicle generate --checkpoint runs/a",
    "fascicle help plan",
];

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
