//! The CUDA and ROCm vendors beside the CPU vendor: the contract suite, and training on grids of 1 to 8 ranks.
//!
//! The tests run on the emulator, which needs a C++ compiler. If `FASCICLE_REQUIRE` names a vendor (`cuda`, `rocm` or
//! both), they run on that vendor's devices, and fail without them. The library's collectives need one device per rank;
//! grids with more ranks are skipped with a line on stderr. `FASCICLE_PARITY=all` trains on every grid.

mod bits;
#[path = "../common/mod.rs"]
mod common;
mod connect;
mod contract;
mod custom;
mod ending;
mod epilogues;
mod fastest;
mod first_step;
mod foreign;
mod generation;
mod graph;
mod host;
mod locked;
mod parity;
mod together;
mod tuning;

use fascicle_emulator as emulator;
use hal::{
    Device, Result, SumOrder,
    environment::table::{CUDA_QUEUES, HIP_QUEUES},
};
use std::sync::{Arc, OnceLock};

/// A vendor with one of its kinds of collectives.
#[derive(Clone, Copy)]
struct Way {
    vendor: &'static str,
    collectives: hal::CollectiveBackend,
    open: testkit::contract::Open,
    /// As `open`, with sums in the order of the seam.
    canonical: testkit::contract::Open,
}

const CUDA: Way = Way {
    vendor: "cuda",
    collectives: hal::CollectiveBackend::Library,
    open: |ordinal| cuda::open(options(ordinal, false, SumOrder::Device)),
    canonical: |ordinal| cuda::open(options(ordinal, false, SumOrder::Canonical)),
};
const CUDA_STAGED: Way = Way {
    collectives: hal::CollectiveBackend::Staged,
    open: |ordinal| cuda::open(options(ordinal, true, SumOrder::Device)),
    canonical: |ordinal| cuda::open(options(ordinal, true, SumOrder::Canonical)),
    ..CUDA
};
const ROCM: Way = Way {
    vendor: "rocm",
    collectives: hal::CollectiveBackend::Library,
    open: |ordinal| rocm::open(options(ordinal, false, SumOrder::Device)),
    canonical: |ordinal| rocm::open(options(ordinal, false, SumOrder::Canonical)),
};
const ROCM_STAGED: Way = Way {
    collectives: hal::CollectiveBackend::Staged,
    open: |ordinal| rocm::open(options(ordinal, true, SumOrder::Device)),
    canonical: |ordinal| rocm::open(options(ordinal, true, SumOrder::Canonical)),
    ..ROCM
};

fn options(ordinal: usize, staged: bool, sums: SumOrder) -> gpu::Options {
    let collectives = if staged {
        hal::CollectiveBackend::Staged
    } else {
        hal::CollectiveBackend::Library
    };
    gpu::Options {
        ordinal,
        wraps: shares_devices(),
        settings: hal::DeviceSettings {
            collectives,
            sums,
            ..hal::DeviceSettings::default()
        },
        host: Some(cpu::driver()),
    }
}

/// Whether NCCL may run several ranks on a device.
fn shares_devices() -> bool {
    std::env::var("NCCL_MULTI_RANK_GPU_ENABLE").is_ok_and(|value| value == "1")
}

/// Ranks of the library on a device that they share. Each holds multiprocessors while it waits for the others.
const MOST_SHARING: usize = 2;

impl Way {
    /// Whether a long test can run here. On the emulator it must be requested, as `ci/emulator.sh` does.
    fn is_asked(self, test: &str) -> bool {
        let asked = on_devices() || emulator::is_required("emulator");
        if !asked {
            eprintln!(
                "skipped {test}: FASCICLE_REQUIRE does not name emulator; ci/emulator.sh runs it"
            );
        }
        asked && self.is_ready(test)
    }

    /// Whether a test can run here; if not, it has printed why.
    fn is_ready(self, test: &str) -> bool {
        if on_devices() {
            let asked = emulator::is_required(self.vendor);
            if !asked {
                eprintln!(
                    "skipped {test}: FASCICLE_REQUIRE does not name {}",
                    self.vendor
                );
            }
            return asked;
        }
        emulator::for_test(test).is_some_and(|folder| {
            static SET: OnceLock<()> = OnceLock::new();
            SET.get_or_init(|| use_emulator(&folder));
            true
        })
    }

    /// Whether each of `ranks` ranks can have a device here, or its half of one where ranks of the library may share.
    fn has_devices(self, ranks: usize) -> bool {
        let sharing = self.collectives == hal::CollectiveBackend::Library && shares_devices();
        let last = match sharing {
            true => self.open_alone(ranks.div_ceil(MOST_SHARING) - 1),
            false => (self.open)(ranks - 1),
        };
        if let Err(error) = &last {
            assert!(ranks > 1, "{}: {error}", self.vendor);
            eprintln!("skipped {ranks} ranks on {}: {error}", self.vendor);
        }
        last.is_ok()
    }

    // Without wrapping, so that it fails where there is no such device.
    fn open_alone(self, ordinal: usize) -> Result<Arc<dyn Device>> {
        let options = gpu::Options {
            ordinal,
            ..gpu::Options::default()
        };
        match self.vendor {
            "cuda" => cuda::open(options),
            _ => rocm::open(options),
        }
    }
}

/// Whether the tests are to run on devices.
fn on_devices() -> bool {
    emulator::is_required("cuda") || emulator::is_required("rocm")
}

fn use_emulator(folder: &std::path::Path) {
    for vendor in ["CUDA", "ROCM"] {
        // SAFETY: the standard library guards its own reads, and the emulator's come after this, once it is opened.
        unsafe {
            std::env::set_var(format!("FASCICLE_{vendor}_PATH"), folder);
            std::env::set_var(
                format!("FASCICLE_{vendor}_OBJECT"),
                folder.join(emulator::IMAGE),
            );
        }
    }
    // Tests share devices, as jobs do not: each rank gets queues of its own, unless there are to be few.
    for (variable, value) in [CUDA_QUEUES, HIP_QUEUES].map(|variable| (variable.name, "16")) {
        if std::env::var_os(variable).is_none() {
            // SAFETY: as above.
            unsafe {
                std::env::set_var(variable, value);
                std::env::set_var("FASCICLE_EMULATOR_QUEUES", "0");
            }
        }
    }
    let devices = first_step::DEVICE + 1;
    // SAFETY: as above.
    unsafe { std::env::set_var("FASCICLE_EMULATOR_DEVICES", devices.to_string()) };
}
