//! Which of the program's vendors to use.

use crate::failure::{Failure, Outcome};
use hal::{Driver, OpenOptions};

/// The first vendor that can open a device here.
pub(crate) fn preferred(drivers: &[Driver]) -> Outcome<Driver> {
    let usable = drivers.iter().copied().find(|driver| (driver.probe)().usable);
    usable.ok_or_else(|| {
        let names: Vec<_> = drivers.iter().map(|driver| driver.vendor.name()).collect();
        let names = if names.is_empty() { "none".into() } else { names.join(", ") };
        Failure::run(format!(
            "device: none usable among the vendors of this build ({names}); see `fascicle doctor`"
        ))
    })
}

/// A device of that vendor in words, as a rank with so many threads sees it.
pub(crate) fn described(driver: Driver, threads: usize) -> Outcome<String> {
    let device = (driver.open)(OpenOptions { ordinal: 0, threads, transport: None });
    let device = device.map_err(|error| match error {
        hal::Error::Invalid { .. } => Failure::usage(error),
        _ => Failure::run(error),
    })?;
    Ok(format!("{}: {}", driver.vendor.name(), device.capabilities().description))
}
