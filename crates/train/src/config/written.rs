//! A configuration as TOML with comments: what each key means, and the values that it takes.

use super::{Config, Key};
use crate::{Error, Result};
use std::fmt::Write;
use toml::{Table, Value};

/// Letters in a line of comments.
const WIDTH: usize = 100;

impl Config {
    /// The configuration as TOML: every key with its meaning above it, and keys without a value as comments.
    ///
    /// # Errors
    /// [`Error::Setting`] for a value that TOML cannot hold, such as a seed above [`i64::MAX`]; no file has one.
    pub fn to_toml(&self) -> Result<String> {
        let mut all = Table::try_from(self)
            .map_err(|error| Error::setting("configuration", error, "values that TOML can hold"))?;
        let mut tables = Config::keys().to_vec();
        tables.insert(1, ("model", self.model.documented_keys()));
        let mut text = String::new();
        for (name, keys) in tables {
            let mut values = match name {
                "" => all.clone(),
                _ => match all.remove(name) {
                    Some(Value::Table(values)) => values,
                    _ => continue,
                },
            };
            if !name.is_empty() {
                write!(text, "\n[{name}]\n").unwrap_or_default();
            }
            for key in keys {
                comment(&mut text, &key);
                match values.remove(key.name) {
                    Some(value) => assign(&mut text, key.name, &value),
                    None => writeln!(text, "# {} =", key.name).unwrap_or_default(),
                }
            }
            // Keys that an architecture has not described.
            if !name.is_empty() {
                values
                    .iter()
                    .for_each(|(name, value)| assign(&mut text, name, value));
            }
        }
        Ok(text)
    }
}

fn assign(text: &mut String, name: &str, value: &Value) {
    writeln!(text, "{name} = {value}").unwrap_or_default();
}

// The meaning of a key and its values, in lines that fit a page.
fn comment(text: &mut String, key: &Key) {
    let words = format!("{} Values: {}.", key.meaning, key.values);
    let mut line = String::from("#");
    for word in words.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(text, "{line}").unwrap_or_default();
            line = String::from("#");
        }
        line.push(' ');
        line += word;
    }
    writeln!(text, "{line}").unwrap_or_default();
}
