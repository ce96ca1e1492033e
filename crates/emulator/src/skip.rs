//! What a test does if it cannot run.

use std::{path::PathBuf, sync::OnceLock};

/// Whether `FASCICLE_REQUIRE`, a comma-separated list, names this. A test that needs it then fails instead of being
/// skipped.
pub fn is_required(name: &str) -> bool {
    std::env::var("FASCICLE_REQUIRE")
        .is_ok_and(|list| list.split(',').any(|listed| listed.trim() == name))
}

/// The libraries' folder for the test of this name, built once per process. Without a C++ compiler it prints a line to
/// stderr and returns `None`.
///
/// # Panics
/// Without a C++ compiler, if `FASCICLE_REQUIRE` names the emulator.
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
