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
/// opened. A program calls this first.
///
/// # Safety
/// No other thread runs: C code may read the environment at any time, without a lock.
pub unsafe fn settle() {
    for (variable, value) in table::SETTLED {
        if variable.read_os().is_none() {
            // SAFETY: passed on from the caller.
            unsafe { env::set_var(variable.name, value) };
        }
    }
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
    fn a_variable_is_read_by_its_name() {
        let cargo = Variable {
            name: "CARGO_MANIFEST_DIR",
            ..table::VENDOR
        };
        assert_eq!(cargo.read().as_deref(), Some(env!("CARGO_MANIFEST_DIR")));
    }
}
