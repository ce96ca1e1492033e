//! Every environment variable that this workspace reads, declared once: name, reader, values, default, meaning.
//!
//! [`table`] declares them, and outside the tests, all code reads the environment through [`Variable::read`]. So
//! `fascicle doctor --environment` shows all of them, and docs/environment.md is generated from [`table::ALL`].
//!
//! A choice that changes the numbers of a run is not an environment variable but a key of the configuration, which the
//! run records.

pub mod table;

use std::{env, ffi::OsString};

/// An environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// The code that reads it, and when.
    pub reader: &'static str,
    /// The values it accepts.
    pub values: &'static str,
    /// The default when it is not set.
    pub default: &'static str,
    /// Its purpose.
    pub meaning: &'static str,
}

/// Variables that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its heading.
    pub title: &'static str,
    /// Their common purpose, in a sentence.
    pub about: &'static str,
    /// The variables.
    pub variables: &'static [Variable],
}

impl Variable {
    /// Its current value; `None` if it is not set or not valid text.
    pub fn read(&self) -> Option<String> {
        env::var(self.name).ok()
    }

    /// As [`read`](Variable::read), for a path or a list of paths.
    pub fn read_os(&self) -> Option<OsString> {
        env::var_os(self.name)
    }
}

/// Sets the variables of [`table::SETTLED`] that are not set, for the vendors' libraries, which read them when they are
/// opened; returns whether all of them are set now. A job does so when it starts, and a program that opens devices itself calls
/// this first.
///
/// Once the process has a second thread it sets nothing, because C code may read the environment at any time, without a lock.
pub fn settle() -> bool {
    let is_alone = is_only_thread();
    for (variable, value) in table::SETTLED {
        if is_alone && variable.read_os().is_none() {
            // SAFETY: the process has no thread but this one, which could read the environment meanwhile, and a thread that it
            // starts later begins after this call.
            unsafe { env::set_var(variable.name, value) };
        }
    }
    let mut settled = table::SETTLED.iter();
    settled.all(|(variable, _)| variable.read_os().is_some())
}

// Not where the system does not say, as only Linux does.
fn is_only_thread() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_is_declared_once_and_fully() {
        let mut names = Vec::new();
        for variable in table::ALL.iter().flat_map(|section| section.variables) {
            let Variable {
                name,
                reader,
                values,
                default,
                meaning,
            } = variable;
            assert!(
                [reader, values, default, meaning]
                    .iter()
                    .all(|text| !text.is_empty() && !text.contains('|')),
                "{name}"
            );
            names.push(name);
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_process_with_threads_keeps_its_environment() {
        let before: Vec<_> = env::vars_os().collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The test's own threads run beside this one.
                assert!(!is_only_thread());
                settle();
            });
        });
        assert_eq!(env::vars_os().collect::<Vec<_>>(), before);
    }

    #[test]
    fn a_variable_is_read_by_its_name() {
        let cargo = Variable {
            name: "CARGO_MANIFEST_DIR",
            ..table::VENDOR
        };
        assert_eq!(cargo.read().as_deref(), Some(env!("CARGO_MANIFEST_DIR")));
    }
}
