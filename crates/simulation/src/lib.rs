//! Whole jobs - the trainer, its checkpoints, the bootstrap, streams and collectives - under a scheduler, a clock, a disk and
//! faults that a seed decides.
//!
//! [`sync`] is `hal::sync` for simulations. With `--cfg fascicle_simulated`, `hal` has that module in place of the standard
//! library's primitives, and this crate has jobs too: `plan` says what a seed means, `life` runs a job of ranks once,
//! `scenario` runs it, cuts the power or not, and resumes it, and `judge` says what must hold. Without the flag only [`sync`] is
//! here, which has tests of its own. `ci/simulation.sh` builds and runs all of it.

#![forbid(unsafe_code)]

#[cfg(not(fascicle_simulated))]
pub mod sync;
#[cfg(fascicle_simulated)]
pub use hal::sync;

#[cfg(fascicle_simulated)]
pub mod counts;
#[cfg(fascicle_simulated)]
mod judge;
#[cfg(fascicle_simulated)]
pub mod life;
#[cfg(fascicle_simulated)]
mod network;
#[cfg(fascicle_simulated)]
mod pace;
#[cfg(fascicle_simulated)]
pub mod plan;
#[cfg(fascicle_simulated)]
mod reference;
#[cfg(fascicle_simulated)]
pub mod scenario;
#[cfg(fascicle_simulated)]
mod slow_disk;

// The file system that knows what was synced belongs to the tests of crates/checkpoint, which it names by these paths.
#[cfg(fascicle_simulated)]
#[allow(dead_code, missing_docs)]
#[path = "../../checkpoint/src/tests/power"]
mod power {
    pub mod disk;
    pub mod model;
    pub mod random;
}
#[cfg(fascicle_simulated)]
mod disk {
    pub use checkpoint::{Disk, Stored};
}
#[cfg(fascicle_simulated)]
mod tests {
    pub use crate::life::names;
}
