//! The CUDA vendor on the emulator: the production loader, allocator, streams, launches, products and collectives over
//! libraries with NVIDIA's names and symbols.

mod suite;

use fascicle_cuda as cuda;
use hal::{Device, Result};
use std::sync::{Arc, OnceLock};

/// The emulator's libraries, or why there are none.
fn emulator() -> &'static std::result::Result<(), String> {
    static READY: OnceLock<std::result::Result<(), String>> = OnceLock::new();
    READY.get_or_init(|| {
        let folder = emulator::build()?;
        // SAFETY: the standard library guards its own reads, and the emulator's come after this, once it is opened.
        unsafe {
            std::env::set_var("FASCICLE_CUDA_PATH", &folder);
            // The emulator looks functions up by name, so any image that is not empty will do.
            std::env::set_var("FASCICLE_CUDA_OBJECT", folder.join("libcuda.so.1"));
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

/// A device whose collectives are NCCL's.
fn open(ordinal: usize) -> Result<Arc<dyn Device>> {
    cuda::open(gpu::Options { ordinal, collectives: gpu::Collectives::Library })
}

/// A device whose collectives are staged.
fn open_staged(ordinal: usize) -> Result<Arc<dyn Device>> {
    cuda::open(gpu::Options { ordinal, collectives: gpu::Collectives::Staged })
}
