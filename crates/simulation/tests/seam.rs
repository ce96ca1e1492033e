//! What a simulated job runs names threads, locks, clocks and channels through `hal::sync` alone, or says here why not.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The sources of a simulated job, below `crates/`.
const ON_THE_PATH: [&str; 12] = [
    "hal/src",
    "tensor/src",
    "cpu/src",
    "grid/src",
    "bootstrap/src",
    "parallel/src",
    "nn/src",
    "checkpoint/src",
    "train/src/trainer",
    "train/src/config",
    "families/src/gpt",
    "replay/src",
];

/// Files that name the standard library's, and why no schedule depends on it.
const EXCEPT: [(&str, &str); 16] = [
    ("hal/src/sync.rs", "it is the seam"),
    (
        "cpu/src/patience.rs",
        "spinning, for which simulations have another file",
    ),
    ("hal/src/kernel/custom.rs", "a counter of ids"),
    ("hal/src/dry.rs", "a counter of addresses"),
    ("tensor/src/device.rs", "a counter of ids"),
    (
        "checkpoint/src/reader.rs",
        "a cell whose value is set without waiting",
    ),
    (
        "cpu/src/memory.rs",
        "a cell whose value is set without waiting",
    ),
    (
        "cpu/src/stream/event.rs",
        "times that are measured, and decide nothing",
    ),
    ("cpu/src/collectives/registry.rs", "a counter of ids"),
    (
        "bootstrap/src/processes.rs",
        "ranks as processes are not simulated",
    ),
    (
        "bootstrap/src/local/panics.rs",
        "a hook that is installed once",
    ),
    (
        "hal/src/threads.rs",
        "threads that share nothing and are joined at once",
    ),
    (
        "hal/src/environment/mod.rs",
        "a look at the process, before a job has threads",
    ),
    (
        "parallel/src/context.rs",
        "a number of threads, which changes no value",
    ),
    (
        "train/src/trainer/fit.rs",
        "times that are measured, and decide nothing",
    ),
    (
        "families/src/gpt/foreign/reference/loops.rs",
        "a proof, which no job runs",
    ),
];

const PRIMITIVES: [&str; 11] = [
    "Mutex", "Condvar", "RwLock", "OnceLock", "LazyLock", "Once,", "Barrier", "mpsc", "tomic",
    "Instant", "thread",
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        match path.is_dir() {
            true if name != "tests" => sources(&path, found),
            false if name.ends_with(".rs") && name != "tests.rs" => found.push(path),
            _ => {}
        }
    }
}

/// What a file names of the standard library's primitives, in statements beginning with `std::` and in imports of several names.
fn named(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = code.lines().map(|line| line.split("//").next().unwrap());
    let code: Vec<&str> = lines.collect();
    let code = code.join("\n");
    let statements = code.match_indices("std::").map(|(start, _)| {
        let rest = &code[start..];
        let is_import = code[..start].ends_with("use ");
        let end = rest.find(if is_import { ';' } else { '\n' });
        let statement = &rest[..end.unwrap_or(rest.len())];
        statement.split_whitespace().collect::<Vec<_>>().join(" ")
    });
    let is_primitive = |statement: &String| {
        let statement = statement.replace("thread_local!", "");
        PRIMITIVES.iter().any(|name| statement.contains(name))
    };
    statements.filter(is_primitive).collect()
}

#[test]
fn the_sources_of_a_job_name_their_primitives_through_the_seam() {
    let (crates, mut all) = (crates(), Vec::new());
    ON_THE_PATH
        .iter()
        .for_each(|folder| sources(&crates.join(folder), &mut all));
    assert!(all.len() > 200, "{} files", all.len());
    let mut naming = BTreeSet::new();
    let mut wrong = Vec::new();
    for path in all {
        let statements = named(&fs::read_to_string(&path).unwrap());
        let path = path
            .strip_prefix(&crates)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        if !statements.is_empty() {
            naming.insert(path.clone());
        }
        if !statements.is_empty() && EXCEPT.iter().all(|(except, _)| *except != path) {
            wrong.push(format!("{path}: {statements:?}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "name these through hal::sync:\n{}",
        wrong.join("\n")
    );
    let stale = EXCEPT.iter().filter(|(path, _)| !naming.contains(*path));
    assert_eq!(stale.collect::<Vec<_>>(), Vec::<&(&str, &str)>::new());
}

#[test]
fn the_check_finds_what_it_looks_for() {
    for text in [
        "use std::sync::Mutex;\n",
        "use std::{\n    fmt,\n    sync::{Arc, mpsc::channel},\n};\n",
        "let end = std::time::Instant::now();\n",
        "std::thread::sleep(time);\n",
        "use std::sync::{\n    Arc,\n    atomic::{AtomicBool, Ordering},\n};\n",
    ] {
        assert_eq!(named(text).len(), 1, "{text}");
    }
    for text in [
        "use std::{sync::Arc, time::Duration};\n",
        "use hal::sync::Mutex;\n",
        "// std::thread would do\n",
        "#[cfg(test)]\nmod tests {\n    use std::time::Instant;\n}\n",
    ] {
        assert!(named(text).is_empty(), "{text}");
    }
}
