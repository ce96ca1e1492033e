//! `--set training.learning_rate=1e-3`: any key of the configuration from the command line.

use crate::failure::{Failure, Outcome};
use toml::{Table, Value};
use train::{Config, Families};

/// The configuration with these settings applied, each `key=value` with a dotted key; later ones win.
///
/// A value that is not TOML is taken as text, so that `data.path=notes.txt` needs no quotes.
pub(crate) fn applied(config: Config, settings: &[String], families: &Families) -> Outcome<Config> {
    if settings.is_empty() {
        return Ok(config);
    }
    let mut table: Table = config
        .to_toml()?
        .parse()
        .map_err(|error| Failure::usage(format!("--set: {error}")))?;
    for setting in settings {
        // The model's family defines the model's keys: the family being set, or else the one before.
        let family = table["model"]["family"].clone();
        let (key, value) = parsed(setting, family, families)?;
        put(&mut table, &key, value);
    }
    let text =
        toml::to_string(&table).map_err(|error| Failure::usage(format!("--set: {error}")))?;
    Config::parse(&text, families)
        .map_err(|error| Failure::usage(format!("--set: {}", without_line(&error.to_string()))))
}

// The parts of the key and the value, once they form a valid configuration by themselves.
fn parsed(setting: &str, family: Value, families: &Families) -> Outcome<(Vec<String>, Value)> {
    let refuse = |why: &str| Failure::usage(format!("--set {setting}: {why}"));
    let Some((key, text)) = setting.split_once('=') else {
        return Err(refuse(
            "needs `=` between a key and its value, as in training.steps=100",
        ));
    };
    let parts: Vec<String> = key.trim().split('.').map(str::to_owned).collect();
    let is_name = |part: &String| {
        part.chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    if !parts.iter().all(|part| !part.is_empty() && is_name(part)) {
        return Err(refuse(
            "needs a key of names with dots between them, as in training.steps",
        ));
    }
    let value = value(text.trim());
    let mut alone = Table::new();
    put(&mut alone, &["model".into(), "family".into()], family);
    put(&mut alone, &parts, value.clone());
    let alone = toml::to_string(&alone).map_err(|error| refuse(&error.to_string()))?;
    Config::parse(&alone, families).map_err(|error| refuse(without_line(&error.to_string())))?;
    Ok((parts, value))
}

fn value(text: &str) -> Value {
    let parsed = format!("value = {text}").parse::<Table>().ok();
    parsed
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.into()))
}

// Sets a value, and turns a value in its way into a table: `tokenizer = "bytes"` may become a table with a
// file.
fn put(table: &mut Table, key: &[String], value: Value) {
    match key {
        [] => {}
        [last] => drop(table.insert(last.clone(), value)),
        [first, rest @ ..] => {
            let entry = table
                .entry(first.clone())
                .or_insert_with(|| Value::Table(Table::new()));
            if !entry.is_table() {
                *entry = Value::Table(Table::new());
            }
            entry
                .as_table_mut()
                .into_iter()
                .for_each(|inner| put(inner, rest, value.clone()));
        }
    }
}

// The line number refers to a text that the user did not write, so it is dropped.
fn without_line(message: &str) -> &str {
    match message
        .strip_prefix("line ")
        .and_then(|rest| rest.split_once(": "))
    {
        Some((_, sentence)) => sentence,
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(settings: &[&str]) -> Outcome<Config> {
        applied(
            crate::testing::config(0),
            &settings
                .iter()
                .map(|text| (*text).to_owned())
                .collect::<Vec<_>>(),
            &families::families(),
        )
    }

    #[test]
    fn numbers_names_and_texts_are_set() {
        let config = set(&[
            "training.learning_rate=1e-3",
            "training.steps = 7",
            "model.family=llama",
            "data.path=some notes.txt",
            "parallel.grid=x=2,data=2",
            "parallel.overlap=[\"oar\"]",
            "seed=9",
        ]);
        let config = config.unwrap();
        assert_eq!(
            (
                config.training.learning_rate,
                config.training.steps,
                config.seed
            ),
            (1e-3, 7, 9)
        );
        assert_eq!(config.model.family(), "llama");
        assert_eq!(config.data.path, Some("some notes.txt".into()));
        assert_eq!(
            (
                config.parallel.grid.x,
                config.parallel.grid.z,
                config.parallel.grid.data
            ),
            (2, 1, 2)
        );
        assert!(config.parallel.overlap.0.all_reduce && !config.parallel.overlap.0.data);
    }

    #[test]
    fn the_last_of_two_wins_and_names_may_become_tables() {
        let config = set(&[
            "training.steps=7",
            "training.steps=8",
            "data.tokenizer.file=t.json",
        ])
        .unwrap();
        assert_eq!(config.training.steps, 8);
        assert_eq!(
            config.data.tokenizer,
            train::data::TokenizerChoice::File("t.json".into())
        );
    }
}
