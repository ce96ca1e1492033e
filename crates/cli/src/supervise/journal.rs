//! What a supervisor did, as lines of JSON in the run's folder.

use super::hosts::Host;
use crate::output;
use serde::Serialize;
use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// The file's name.
pub(crate) const NAME: &str = "supervise.jsonl";

/// One line.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub(crate) enum Event<'a> {
    /// The command was started.
    Start {
        /// The step of the newest checkpoint, from which it resumes.
        step: Option<u64>,
        /// The hosts, with their ranks.
        hosts: &'a [Host],
        /// The number of ranks; none if the command decides it.
        ranks: Option<usize>,
    },
    /// It ended.
    End {
        /// As before.
        step: Option<u64>,
        /// Its exit status, or the signal.
        how: &'a str,
        /// What it said of that.
        said: Option<&'a str>,
        /// The host that this names.
        host: Option<&'a str>,
    },
    /// A host is left out.
    Out {
        /// Its name.
        host: &'a str,
        /// Why.
        why: &'a str,
    },
    /// A host is used again.
    Back {
        /// Its name.
        host: &'a str,
    },
}

#[derive(Serialize)]
struct Line<'a> {
    /// Seconds since 1970.
    time: f64,
    #[serde(flatten)]
    event: Event<'a>,
}

/// Keeps lines until the run's folder exists, which the run itself makes.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    waiting: String,
    has_failed: bool,
}

impl Journal {
    /// The journal of the run in this folder, after the lines that are there.
    pub(crate) fn new(run: &Path) -> Journal {
        Journal {
            path: run.join(NAME),
            waiting: String::new(),
            has_failed: false,
        }
    }

    /// Adds a line. A journal that cannot be written is reported once, and the run continues.
    pub(crate) fn add(&mut self, event: Event) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let line = Line {
            time: since.map_or(0.0, |since| since.as_secs_f64()),
            event,
        };
        if let Ok(line) = serde_json::to_string(&line) {
            self.waiting += &line;
            self.waiting.push('\n');
        }
        self.write();
    }

    /// Writes what waits, if the folder is there.
    pub(crate) fn write(&mut self) {
        if self.waiting.is_empty() || !self.path.parent().is_some_and(Path::is_dir) {
            return;
        }
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.path);
        let written = file.and_then(|mut file| file.write_all(self.waiting.as_bytes()));
        self.waiting.clear();
        if let Err(error) = written
            && !std::mem::replace(&mut self.has_failed, true)
        {
            output::note(&format!("supervise: {}: {error}", self.path.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wait_for_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        let mut journal = Journal::new(&run);
        let out = |host| Event::Out { host, why: "gone" };
        journal.add(out("a"));
        assert!(!run.exists());
        std::fs::create_dir(&run).unwrap();
        journal.add(out("b"));
        journal.add(Event::Back { host: "a" });
        let text = std::fs::read_to_string(run.join(NAME)).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let seen = lines
            .iter()
            .map(|line| format!("{} {}", line["event"], line["host"]));
        assert_eq!(
            seen.collect::<Vec<_>>(),
            [r#""out" "a""#, r#""out" "b""#, r#""back" "a""#]
        );
        assert!(lines[0]["time"].as_f64().unwrap() > 1e9);
    }
}
