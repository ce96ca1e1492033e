//! Every environment variable that this workspace reads, declared once: name, reader, values, default, meaning.
//!
//! [`table`] declares them, and outside the tests, all code reads the environment through [`Variable::read`]. So
//! `fascicle doctor --environment` shows all of them, and [`page`] returns docs/environment.md.
//!
//! A choice that changes the numbers of a run is not an environment variable but a key of the configuration, which the
//! run records.

pub mod table;

use std::{env, ffi::OsString, fmt::Write};

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

/// The variable with that name in the table.
pub fn named(name: &str) -> Option<Variable> {
    let mut all = table::ALL.iter().flat_map(|section| section.variables);
    all.find(|variable| variable.name == name).copied()
}

/// The table with the current values, for a terminal.
pub fn present() -> String {
    let mut text = String::new();
    for section in table::ALL {
        let _ = writeln!(text, "{}", section.title);
        for variable in section.variables {
            let value = match variable.read_os() {
                Some(value) => format!("= {}", value.to_string_lossy()),
                None => format!("not set; default: {}", variable.default),
            };
            let _ = writeln!(text, "  {:<29}{value}", variable.name);
            let _ = writeln!(text, "  {:<29}{}", "", variable.meaning);
        }
    }
    text.replace('`', "").trim_end().to_owned()
}

/// The table as the page docs/environment.md.
pub fn page() -> String {
    let mut page = String::from(PAGE_HEAD);
    for section in table::ALL {
        let _ = write!(
            page,
            "\n## {}\n\n{}\n\n| variable | read by | values | default | meaning |\n|---|---|---|---|---|\n",
            section.title, section.about
        );
        for variable in section.variables {
            let Variable {
                name,
                reader,
                values,
                default,
                meaning,
            } = variable;
            let _ = writeln!(
                page,
                "| `{name}` | {reader} | {values} | {default} | {meaning} |"
            );
        }
    }
    page
}

const PAGE_HEAD: &str = "\
# Environment variables

This page lists every variable that the library, the program and their build scripts read. `fascicle doctor --environment`
prints the same table with the current values. The page is generated from the code. To renew it, run
`cargo test --test book -- --ignored renew_the_environment`; a test fails while it is stale.

Choices that change the numbers of a run are not variables but keys of its configuration, which the run records. Scripts in
`ci/` list their own variables in their first lines.
";

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
        assert!(
            present().contains("FASCICLE_HIPCC               not set; default: $ROCM_PATH/bin")
        );
        assert_eq!(named("FASCICLE_VENDOR"), Some(table::VENDOR));
        assert_eq!(named("FASCICLE_NOTHING"), None);
    }
}
