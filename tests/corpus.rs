//! What reads from outside, on the inputs kept in tests/fuzz/corpus, on their beginnings, and on copies with a changed byte.
//! `ci/fuzz.sh` looks for more.

#[path = "fuzz/targets.rs"]
mod targets;

use std::{fs, panic, path::Path};

/// Beginnings, and changed bytes, that are tried of each input.
const VARIANTS: usize = 150;

fn inputs(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fuzz/corpus")
        .join(name);
    let files =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let read = |file: std::io::Result<fs::DirEntry>| {
        let path = file.unwrap().path();
        (path.display().to_string(), fs::read(&path).unwrap())
    };
    let found: Vec<_> = files.map(read).collect();
    assert!(!found.is_empty(), "{} is empty", folder.display());
    found
}

// The same ones in every run: a test that fails must fail again.
fn variants(input: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut all = vec![("itself".to_owned(), input.to_vec())];
    let mut state = 1u64;
    let mut below = |bound: usize| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as usize % bound
    };
    for _ in 0..VARIANTS.min(4 * input.len()) {
        let (at, byte) = (below(input.len()), below(256) as u8);
        all.push((format!("its first {at} bytes"), input[..at].to_vec()));
        let mut changed = input.to_vec();
        changed[at] = byte;
        all.push((format!("with byte {at} = {byte}"), changed));
    }
    all
}

#[test]
fn no_input_causes_a_panic() {
    for (name, target) in targets::TARGETS {
        for (path, input) in inputs(name) {
            for (what, bytes) in variants(&input) {
                let ended = panic::catch_unwind(|| target(&bytes));
                assert!(ended.is_ok(), "{name}: {path}, {what}");
            }
        }
    }
}
