//! What a test does where it cannot run.

use std::{path::PathBuf, sync::OnceLock};

/// Whether `FASCICLE_REQUIRE`, a list with commas, names this: what would be skipped for want of it then fails.
pub fn is_required(name: &str) -> bool {
    std::env::var("FASCICLE_REQUIRE")
        .is_ok_and(|list| list.split(',').any(|listed| listed.trim() == name))
}

/// The libraries' folder for a test of this name, built once for the process; `None`, and a word on stderr, where there
/// is no C++ compiler.
///
/// # Panics
/// Instead of the word, where `FASCICLE_REQUIRE` names the emulator.
pub fn for_test(test: &str) -> Option<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match BUILT.get_or_init(crate::build) {
        Ok(folder) => Some(folder.clone()),
        Err(reason) if is_required("emulator") => panic!("{test} needs the emulator: {reason}"),
        Err(reason) => {
            eprintln!("skipped {test}: no emulator: {reason}");
            None
        }
    }
}
