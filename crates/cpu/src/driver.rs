//! How a program finds this vendor.

use crate::{Options, machine, open};
use hal::{Driver, Probe, VendorId};

/// The processor of this machine, which always exists.
pub fn driver() -> Driver {
    Driver {
        vendor: VendorId::CPU,
        open: |options| {
            let hal::OpenOptions {
                ordinal,
                threads,
                transport,
                // Its collectives and matmuls have one implementation each.
                settings,
                host: _,
            } = options;
            open(Options {
                threads,
                memory_bytes: settings.memory_limit,
                ordinal,
                transport,
            })
        },
        probe: || Probe {
            usable: true,
            findings: vec![format!("{}, {}", machine::processor(), machine::vectors())],
        },
    }
}
