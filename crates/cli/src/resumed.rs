//! What a run that is resumed takes from the command: its folder, and nothing of a configuration file.

use crate::{
    failure::{Failure, Outcome},
    output,
};
use std::path::Path;
use train::{Config, Families};

// What a configuration file states, which was read before.
pub(crate) fn stated_keys(path: &Path) -> Outcome<toml::Table> {
    let refuse =
        |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", path.display()));
    let text = hal::files::read_text(path).map_err(|error| refuse(&error))?;
    text.parse().map_err(|error| refuse(&error))
}

/// Names the settings of a configuration file that differ from the run's, which has those of its checkpoint. A file that cannot be
/// read stops no run: it is not needed.
pub(crate) fn note_unused(path: &Path, run: &Config, families: &Families) -> Outcome {
    let table = |config: &Config| {
        let table = toml::Table::try_from(config);
        table.map_err(|error| Failure::usage(error.to_string()))
    };
    let reason = match Config::read(path, families) {
        Ok(file) => differences(&stated_keys(path)?, &table(&file)?, &table(run)?),
        Err(error) => vec![error.to_string()],
    };
    if !reason.is_empty() {
        output::note(&format!(
            "{}: not used, as the run continues with the settings of its checkpoint: {}",
            path.display(),
            reason.join(", ")
        ));
    }
    Ok(())
}

// The stated keys to which a file and a run give other values.
fn differences(stated: &toml::Table, file: &toml::Table, run: &toml::Table) -> Vec<String> {
    let mut differing = Vec::new();
    for (name, keys) in stated {
        for key in keys.as_table().into_iter().flat_map(toml::Table::keys) {
            let value = |all: &toml::Table| all.get(name)?.get(key).cloned();
            if let (Some(of_file), Some(of_run)) = (value(file), value(run))
                && !is_settled(&of_file, &of_run)
            {
                differing.push(format!("{name}.{key} = {of_file} (the run has {of_run})"));
            }
        }
    }
    differing
}

// Whether a run has what a file states: it stores a path from the root on, and in place of `auto` what was chosen.
fn is_settled(of_file: &toml::Value, of_run: &toml::Value) -> bool {
    let is_chosen =
        |(of_file, of_run): (&str, &str)| of_file == "auto" || Path::new(of_run).ends_with(of_file);
    let texts = of_file.as_str().zip(of_run.as_str());
    of_file == of_run || texts.is_some_and(is_chosen)
}

/// Refuses a checkpoint in a run's folder: a run that is resumed writes into the folder that is named.
pub(crate) fn check_is_run(dir: &Path) -> Outcome {
    let path = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
    let above = path.parent().filter(|above| above.ends_with("checkpoints"));
    let run = above.and_then(Path::parent);
    match run.filter(|run| run.join("metrics.jsonl").exists()) {
        Some(run) => Err(Failure::Usage(format!(
            "--resume: found {}, a checkpoint of the run {}, needs the run; --init-from begins another run with these weights",
            dir.display(),
            run.display()
        ))),
        None => Ok(()),
    }
}
