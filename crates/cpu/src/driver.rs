//! How a program finds this vendor.

use crate::{Options, machine, open};
use hal::{Driver, Probe, Vendor};

/// The processor of this machine, which is always there.
pub fn driver() -> Driver {
    Driver {
        vendor: Vendor::Cpu,
        open: |options| {
            open(Options { threads: options.threads, memory_bytes: None, ordinal: options.ordinal })
        },
        probe: || Probe {
            usable: true,
            findings: vec![format!("{}, {}", machine::processor(), machine::vectors())],
        },
    }
}
