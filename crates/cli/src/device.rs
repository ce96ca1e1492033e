//! Which of the program's vendors to use.

use crate::{
    failure::{Failure, Outcome},
    launcher,
};
use hal::{Driver, OpenOptions, VendorId, driver};

/// The value of `--vendor`.
pub(crate) fn named(name: &str) -> Result<VendorId, String> {
    VendorId::named(name).ok_or_else(|| format!("needs {}", VendorId::NAMES))
}

/// The vendors to choose among: the one that was asked for, or all that the program carries.
pub(crate) fn chosen(asked: Option<VendorId>, drivers: &[Driver]) -> Outcome<Vec<Driver>> {
    driver::carried(asked, drivers).map_err(Failure::usage)
}

/// The first vendor that can open a device here.
pub(crate) fn preferred(drivers: &[Driver]) -> Outcome<Driver> {
    driver::usable(drivers).map_err(Failure::run)
}

/// This process's device of that vendor in words, as a rank with so many threads sees it.
pub(crate) fn described(driver: Driver, threads: usize) -> Outcome<String> {
    let device = (driver.open)(own(threads)?).map_err(|error| match error {
        hal::Error::Invalid { .. } if driver.vendor == VendorId::CPU => Failure::usage(error),
        _ => Failure::run(error),
    })?;
    Ok(format!(
        "{}: {}",
        driver.vendor.name(),
        device.capabilities().description
    ))
}

// What the first rank of this process opens: of a job of processes, its only one.
fn own(threads: usize) -> Outcome<OpenOptions> {
    let Some(processes) = launcher::processes() else {
        return Ok(OpenOptions {
            ordinal: 0,
            threads,
            transport: None,
        });
    };
    let place = processes.join().map_err(Failure::run)?;
    let transport = Some(processes.transport().map_err(Failure::run)?);
    Ok(OpenOptions {
        ordinal: place.local_rank,
        threads,
        transport,
    })
}
