//! `fascicle config`: the keys of a configuration, and what a file says.

use crate::{
    failure::{Failure, Outcome},
    inputs,
    numbers::{counted, grouped},
    output,
    overrides::Overrides,
};
use clap::{Args, Subcommand};
use serde::Serialize;
use std::{
    fmt::Display,
    path::{Path, PathBuf},
};
use train::{
    Config, Families,
    config::{Key, suggest::nearest},
};

/// The vocabulary of bytes.
const BYTES: usize = 256;

/// The commands about configurations.
#[derive(Debug, Subcommand)]
pub(crate) enum Configuration {
    /// List keys with their values, defaults and meanings
    List(List),
    /// Read configuration files, and say what they train or what is wrong with them
    Check(Check),
    /// Print a complete configuration: a file, or the default, with the flags of `train` applied
    Show(Box<Show>),
}

impl Configuration {
    /// Does it.
    pub(crate) fn run(&self, families: &Families) -> Outcome {
        match self {
            Configuration::List(list) => list.run(families),
            Configuration::Check(check) => check.run(families),
            Configuration::Show(show) => show.run(families),
        }
    }
}

/// Arguments of `fascicle config list`.
#[derive(Args, Debug)]
pub(crate) struct List {
    /// Only keys that contain this, as in training or learning_rate; where none does, those whose meaning contains it
    part: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// A key under its full name.
#[derive(Debug, Serialize)]
struct Listed {
    key: String,
    /// The families whose models have it; empty for a key outside of `[model]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    families: Vec<String>,
    values: String,
    default: Option<String>,
    meaning: String,
}

impl Listed {
    fn new(table: &str, key: Key) -> Listed {
        Listed {
            key: match table {
                "" => key.name.to_owned(),
                table => format!("{table}.{}", key.name),
            },
            families: Vec::new(),
            values: key.values.replace('`', ""),
            default: key.default,
            meaning: key.meaning.replace('`', ""),
        }
    }

    fn text(&self) -> String {
        let default = self.default.as_deref().unwrap_or("absent");
        let of = match self.families.is_empty() {
            true => String::new(),
            false => format!(" (family {})", self.families.join(", ")),
        };
        format!(
            "{} = {default}{of}\n    {}\n    values: {}",
            self.key, self.meaning, self.values
        )
    }
}

/// All keys in the order of a configuration.
fn keys(families: &Families) -> Vec<Listed> {
    let mut all: Vec<Listed> = Vec::new();
    for (table, keys) in Config::keys() {
        all.extend(keys.into_iter().map(|key| Listed::new(table, key)));
        if table.is_empty() {
            all.extend(keys_of_models(families));
        }
    }
    all
}

// One that several families share stands once.
fn keys_of_models(families: &Families) -> Vec<Listed> {
    let mut all: Vec<Listed> = Vec::new();
    for (family, keys) in families.keys() {
        for key in keys.into_iter().map(|key| Listed::new("model", key)) {
            let same = |known: &&mut Listed| {
                (&known.key, &known.values, &known.default, &known.meaning)
                    == (&key.key, &key.values, &key.default, &key.meaning)
            };
            match all.iter_mut().find(same) {
                Some(known) => known.families.push(family.to_owned()),
                None => all.push(Listed {
                    families: vec![family.to_owned()],
                    ..key
                }),
            }
        }
    }
    all
}

impl List {
    fn run(&self, families: &Families) -> Outcome {
        let all = keys(families);
        let part = self.part.as_deref().unwrap_or_default();
        let has = |text: &str| text.to_lowercase().contains(&part.to_lowercase());
        let named: Vec<&Listed> = all.iter().filter(|key| has(&key.key)).collect();
        let found = match named.is_empty() {
            true => all.iter().filter(|key| has(&key.meaning)).collect(),
            false => named,
        };
        if found.is_empty() {
            let name = |key: &Listed| key.key.rsplit('.').next().unwrap_or_default().to_owned();
            let names: Vec<String> = all.iter().map(name).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let part = part.rsplit('.').next().unwrap_or_default();
            let hint = nearest(part, &names)
                .map_or_else(String::new, |near| format!("; the nearest is `{near}`"));
            return Err(Failure::usage(format!(
                "config list: found `{part}`, needs a part of a key's name{hint}"
            )));
        }
        match self.json {
            true => output::json(&found),
            false => {
                let texts: Vec<String> = found.iter().map(|key| key.text()).collect();
                output::result(&texts.join("\n\n"))
            }
        }
    }
}

/// Arguments of `fascicle config check`.
#[derive(Args, Debug)]
pub(crate) struct Check {
    /// Configuration files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Do not open data and tokenizers, which may lie on another machine
    #[arg(long)]
    without_data: bool,
}

impl Check {
    // All files are read, so that one run finds the mistakes of all.
    fn run(&self, families: &Families) -> Outcome {
        let mut wrong = 0;
        for file in &self.files {
            match described(file, families, self.without_data) {
                Ok(text) => output::result(&format!("{}: {text}", file.display()))?,
                Err(error) => {
                    wrong += 1;
                    output::note(&error);
                }
            }
        }
        match wrong {
            0 => Ok(()),
            wrong => Err(Failure::usage(format!(
                "config check: {wrong} of {} files cannot be used",
                self.files.len()
            ))),
        }
    }
}

// What a file trains, or the sentence that names the file and its mistake.
fn described(file: &Path, families: &Families, without_data: bool) -> Result<String, String> {
    let config = Config::read(file, families).map_err(|error| error.to_string())?;
    for doubt in config.doubts() {
        output::note(&format!("{}: warning: {doubt}", file.display()));
    }
    let of_file = |mistake: &dyn Display| format!("{}: {mistake}", file.display());
    let prepared = match without_data {
        true => inputs::before_data(&config, BYTES).map(|config| (config, None)),
        false => inputs::settled(config, false).map(|(config, data)| (config, Some(data.name))),
    };
    let (config, data) =
        prepared.map_err(|failure| of_file(&failure.sentence().unwrap_or_default()))?;
    let grid = config.grid().map_err(|error| of_file(&error))?;
    let data = data.map_or_else(String::new, |name| format!("; data: {name}"));
    Ok(format!(
        "{}; {} steps, {} on grid {}{data}",
        config.model.describe(),
        grouped(config.training.steps),
        counted(grid.world_size(), "rank"),
        grid.degrees()
    ))
}

/// Arguments of `fascicle config show`.
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// Configuration file; absent: the default
    config: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
}

impl Show {
    fn run(&self, families: &Families) -> Outcome {
        let config = match &self.config {
            Some(path) => Config::read(path, families).map_err(Failure::usage)?,
            None => Config::parse("", families)?,
        };
        let config = self.overrides.applied(config, families)?;
        output::toml(config.to_toml()?.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(text: &str) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.toml");
        std::fs::write(&file, text).unwrap();
        super::described(&file, &families::families(), false)
    }

    #[test]
    fn every_key_is_listed_once_with_its_families() {
        let all = keys(&families::families());
        let named = |name: &str| all.iter().filter(|key| key.key == name).collect::<Vec<_>>();
        let [layers] = &named("model.layers")[..] else {
            panic!("model.layers occurs {} times", named("model.layers").len());
        };
        assert_eq!(layers.families, ["gpt2", "llama", "gemma", "gpt_neox"]);
        assert_eq!(named("seed").len(), 1);
        assert_eq!(all[0].key, "seed");
        assert!(all.iter().all(|key| !key.meaning.is_empty()));
    }

    #[test]
    fn a_file_is_described_or_named_with_its_mistake() {
        let text = described("[training]\nsteps = 1200\n").unwrap();
        assert!(text.starts_with("GPT-2: 4 layers"), "{text}");
        assert!(
            text.contains("; 1,200 steps, 8 ranks on grid x=2"),
            "{text}"
        );
        for (text, mistake) in [
            (
                "[training]\nstep = 3\n",
                "run.toml: line 2: training: found `step`",
            ),
            ("[training]\nbatch = 3\nmicro_batches = 4\n", "run.toml: "),
            ("[parallel]\ngrid = \"x=3\"\n", "run.toml: grid "),
            (
                "[data]\npath = \"/gone.txt\"\n",
                "run.toml: data: /gone.txt does not exist",
            ),
        ] {
            let found = described(text).unwrap_err();
            assert!(found.contains(mistake), "{found}");
        }
    }
}
