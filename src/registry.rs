//! The only place that names every vendor.

use hal::Driver;

/// The vendors that this build carries, the preferred ones first.
pub fn drivers() -> Vec<Driver> {
    vec![cpu::driver()]
}
