//! This machine as it was measured for the planner, and the file that keeps it from run to run.
//!
//! Homes are often shared by hosts that differ, so each host has a file of its own, which states what was measured. It is a
//! machine description that `--machine` takes too: what was measured stands in comments at its head.

use crate::{
    Registry, calendar, commands::bench, device, failure::Outcome, machine as host,
    numbers::counted, output,
};
use grid::machine::Machine;
use hal::environment::table;
use serde::{Deserialize, Serialize};
use std::{
    cell::OnceCell,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};
use tempfile::NamedTempFile;
use train::speed::host_name;

/// What the descriptions hold and how it is measured. Whoever changes either raises it.
const FORMAT: u32 = 1;

/// Days after which a machine is measured again: drivers, limits of power and links change without another name.
const MOST_DAYS: u64 = 30;

/// Begins the lines that say what was measured.
const HEAD: &str = "#: ";

/// This machine's description, found at most once per process.
#[derive(Debug, Default)]
pub(crate) struct ThisMachine {
    found: OnceCell<Machine>,
}

impl ThisMachine {
    /// The description that is kept, or a new one.
    ///
    /// # Cost
    /// About a minute where the machine is measured.
    /// # Errors
    /// [`Failure::Run`](crate::failure::Failure::Run) if no device can be opened, or a measurement fails. A file that cannot be read or written costs a note.
    pub(crate) fn description(&self, registry: &Registry) -> Outcome<Machine> {
        if let Some(found) = self.found.get() {
            return Ok(found.clone());
        }
        let subject = Subject::here(registry)?;
        let found = Kept {
            path: folder().map(|folder| folder.join(subject.file_name())),
            subject,
            now: calendar::now(),
        }
        .description(|name| bench::measure(registry, name))?;
        Ok(self.found.get_or_init(|| found).clone())
    }
}

/// What a measurement depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Subject {
    format: u32,
    host: String,
    processor: String,
    cores: usize,
    vendor: String,
    devices: Vec<String>,
}

impl Subject {
    fn here(registry: &Registry) -> Outcome<Subject> {
        let driver = device::preferred(&registry.drivers)?;
        Ok(Subject {
            format: FORMAT,
            host: host_name(),
            processor: host::processor(),
            cores: host::cores(),
            vendor: driver.vendor.name().to_owned(),
            devices: (driver.probe)().findings,
        })
    }

    // Jobs of one host may have more or fewer of its cores, and other devices: they do not replace each other's files.
    fn file_name(&self) -> String {
        let letter = |letter: char| match letter.is_ascii_alphanumeric() || letter == '.' {
            true => letter,
            false => '-',
        };
        let host: String = self.host.chars().map(letter).collect();
        format!("machine-{host}-{}-{}.toml", self.vendor, self.cores)
    }

    // The first thing in which the machine is not the one that was measured, in words.
    fn change(&self, measured: &Subject) -> Option<String> {
        let words = |subject: &Subject| {
            [
                format!("descriptions of format {}", subject.format),
                format!("host {}", subject.host),
                format!("processor {}", subject.processor),
                counted(subject.cores, "core"),
                format!("vendor {}", subject.vendor),
                format!("devices {}", subject.devices.join("; ")),
            ]
        };
        let mut pairs = words(self).into_iter().zip(words(measured));
        let (now, before) = pairs.find(|(now, before)| now != before)?;
        Some(format!("found {now}, measured was {before}"))
    }
}

/// What the head of a kept description says.
#[derive(Serialize, Deserialize)]
struct Head {
    /// Seconds since 1970.
    time: u64,
    #[serde(flatten)]
    subject: Subject,
}

/// The file of one subject.
struct Kept {
    // Where there is no folder for it, every run measures.
    path: Option<PathBuf>,
    subject: Subject,
    now: u64,
}

impl Kept {
    fn description(&self, measure: impl FnOnce(&str) -> Outcome<Machine>) -> Outcome<Machine> {
        let why = match self.read() {
            Ok((machine, time)) => {
                output::note(&format!(
                    "machine: as it was measured on {} UTC, in {}",
                    calendar::moment(time),
                    self.place()
                ));
                return Ok(machine);
            }
            Err(why) => why,
        };
        output::note(&format!("machine: measured now, because {why}"));
        let machine = measure(&self.subject.host)?;
        output::note(&match self.write(&machine) {
            Ok(()) => format!("machine: measured, and kept in {}", self.place()),
            Err(error) => format!("machine: measured, but not kept for the next run: {error}"),
        });
        Ok(machine)
    }

    fn place(&self) -> String {
        match &self.path {
            Some(path) => path.display().to_string(),
            None => "neither XDG_CACHE_HOME nor HOME is set".into(),
        }
    }

    // The description and the time of its measurement, or why there is none to use.
    fn read(&self) -> Result<(Machine, u64), String> {
        let path = self.path.as_deref().ok_or_else(|| self.place())?;
        let text = match hal::files::read_text(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(format!("there is no {}", path.display()));
            }
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let head: String = text
            .lines()
            .map_while(|line| line.strip_prefix(HEAD))
            .map(|line| format!("{line}\n"))
            .collect();
        let head: Head = toml::from_str(&head)
            .map_err(|_| format!("{} does not say what was measured", path.display()))?;
        if let Some(change) = self.subject.change(&head.subject) {
            return Err(change);
        }
        let days = self.now.saturating_sub(head.time) / calendar::DAY;
        if days >= MOST_DAYS {
            let when = calendar::moment(head.time);
            return Err(format!(
                "the measurement of {when} UTC is {} old",
                counted(days as usize, "day")
            ));
        }
        let machine = Machine::parse(&text, &path.to_string_lossy());
        Ok((machine.map_err(|error| error.to_string())?, head.time))
    }

    // Written aside and renamed: a run beside this one reads all of the file or none of it.
    fn write(&self, machine: &Machine) -> Result<(), String> {
        let path = self.path.as_deref().ok_or_else(|| self.place())?;
        let written = self.write_to(path, machine);
        written.map_err(|error| format!("{}: {error}", path.display()))
    }

    fn write_to(&self, path: &Path, machine: &Machine) -> io::Result<()> {
        let head = Head {
            time: self.now,
            subject: self.subject.clone(),
        };
        let head = toml::to_string(&head).map_err(io::Error::other)?;
        let head: String = head.lines().map(|line| format!("{HEAD}{line}\n")).collect();
        let folder = hal::files::folder(path);
        fs::create_dir_all(folder)?;
        let mut aside = NamedTempFile::new_in(folder)?;
        aside.write_all(format!("{head}\n{}", machine.to_toml()).as_bytes())?;
        aside.persist(path).map_err(|error| error.error)?;
        Ok(())
    }
}

// The folder of this program in the user's cache.
fn folder() -> Option<PathBuf> {
    let stated = |path: &PathBuf| path.is_absolute();
    let cache = table::CACHE_HOME.read_os().map(PathBuf::from);
    let home = || table::HOME.read_os().map(PathBuf::from);
    let cache = cache.filter(stated);
    let cache = cache.or_else(|| Some(home().filter(stated)?.join(".cache")))?;
    Some(Path::new(&cache).join("fascicle"))
}

#[cfg(test)]
mod tests;
