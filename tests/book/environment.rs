//! `docs/environment.md` is made from the table through which every variable is read.

use crate::pages::{RENEW, check_generated, root, table};
use fascicle::hal::environment::{self, Variable};
use std::{fs, path::Path};

/// The table as a page.
fn page() -> String {
    let mut page = format!(
        "\
# Environment variables

This page lists every variable that the library, the program and their build scripts read. `fascicle doctor --environment`
prints the same table with the current values. The page is generated from the code. To renew it, run `{RENEW}`; a test
fails while it is stale.

Choices that change the numbers of a run are not variables but keys of its configuration, which the run records. Scripts in
`ci/` list their own variables in their first lines.
"
    );
    for section in environment::table::ALL {
        let rows = section.variables.iter().map(|variable| {
            let name = format!("`{}`", variable.name);
            let Variable {
                reader,
                values,
                default,
                meaning,
                ..
            } = *variable;
            vec![
                name,
                reader.into(),
                values.into(),
                default.into(),
                meaning.into(),
            ]
        });
        let head = ["variable", "read by", "values", "default", "meaning"];
        let (title, about) = (section.title, section.about);
        page += &format!(
            "
## {title}

{about}

{}",
            table(&head, rows)
        );
    }
    page
}

#[test]
fn the_table_of_variables_is_that_of_the_code() {
    check_generated("docs/environment.md", &page());
}

/// The lines of a source file before its tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let tests = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
    text[..tests].to_owned()
}

/// The sources of libraries, programs, build scripts and examples; not those of tests, nor of the emulator, which is for
/// tests.
fn sources(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match path.is_dir() {
            true if name == "tests" || name == "emulator" => {}
            true => sources(&path, found),
            false if name.ends_with(".rs") && name != "tests.rs" => found.push(path),
            false => {}
        }
    }
}

#[test]
fn the_environment_is_read_through_the_table() {
    let mut found = Vec::new();
    for folder in ["crates", "src", "examples", "kernels-cuda", "kernels-hip"] {
        sources(&root(folder), &mut found);
    }
    // What tests read is no user's business.
    found.retain(|path| !path.starts_with(root("crates/testkit")));
    assert!(found.len() > 300, "{} sources", found.len());
    let mut readers = Vec::new();
    for path in found {
        let is_read = code(&path).lines().any(|line| {
            let reads = line.contains("env::var(") || line.contains("env::var_os(");
            // Cargo's own word to a build script.
            reads && !line.contains("OUT_DIR")
        });
        if is_read {
            readers.push(path.strip_prefix(root("")).unwrap().to_owned());
        }
    }
    assert_eq!(readers, [Path::new("crates/hal/src/environment/mod.rs")]);
}

/// Tests on a device run in threads of a harness, which cannot set the environment, so their script does.
#[test]
fn tests_on_a_device_have_the_environment_of_the_program() {
    let phases = fs::read_to_string(root("ci/gpu/phases.sh")).unwrap();
    for (variable, value) in environment::table::SETTLED {
        let set = format!("{}={value}", variable.name);
        assert!(phases.contains(&set), "ci/gpu/phases.sh lacks {set}");
    }
}
