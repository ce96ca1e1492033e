//! The ROCm vendor on the emulator: the production loader, allocator, streams, launches, products and collectives over
//! libraries with AMD's names and symbols. `FASCICLE_EMULATOR_HIP` chooses the
//! generation: 5.7, 6.4 or 7.1.

mod suite;

use fascicle_rocm as rocm;
use hal::{Device, Result};
use std::sync::{Arc, OnceLock};

/// The emulator's libraries, or why there are none.
fn emulator() -> &'static std::result::Result<(), String> {
    static READY: OnceLock<std::result::Result<(), String>> = OnceLock::new();
    READY.get_or_init(|| {
        let folder = emulator::build()?;
        // SAFETY: the standard library guards its own reads, and the emulator's come after this, once it is opened.
        unsafe {
            std::env::set_var("FASCICLE_ROCM_PATH", &folder);
            // The emulator looks functions up by name, so any image that is not empty will do.
            std::env::set_var("FASCICLE_ROCM_OBJECT", folder.join("librccl.so.1"));
        }
        Ok(())
    })
}

/// Whether tests can run; without a C++ compiler they are skipped, unless `FASCICLE_REQUIRE` names the emulator.
fn ready(test: &str) -> bool {
    let Err(reason) = emulator() else { return true };
    let required =
        std::env::var("FASCICLE_REQUIRE").is_ok_and(|list| list.split(',').any(|name| name == "emulator"));
    assert!(!required, "{test} needs the emulator: {reason}");
    eprintln!("skipped {test}: no emulator: {reason}");
    false
}

/// A device whose collectives are RCCL's.
fn open(ordinal: usize) -> Result<Arc<dyn Device>> {
    rocm::open(gpu::Options { ordinal, collectives: gpu::Collectives::Library })
}

/// A device whose collectives are staged.
fn open_staged(ordinal: usize) -> Result<Arc<dyn Device>> {
    rocm::open(gpu::Options { ordinal, collectives: gpu::Collectives::Staged })
}
