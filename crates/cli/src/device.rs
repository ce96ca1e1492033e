//! Which of the program's vendors to use.

use crate::{
    failure::{Failure, Outcome},
    launcher,
};
use hal::{Capabilities, DeviceSettings, Driver, OpenOptions, VendorId, driver};
use std::sync::Arc;

/// The candidate vendors: the requested one, or all that the program carries.
pub(crate) fn chosen(asked: Option<&str>, drivers: &[Driver]) -> Outcome<Vec<Driver>> {
    driver::carried(asked, drivers).map_err(Failure::usage)
}

/// The first vendor that can open a device here.
pub(crate) fn preferred(drivers: &[Driver]) -> Outcome<Driver> {
    driver::usable(drivers).map_err(Failure::run)
}

/// A description of that device.
pub(crate) fn described(
    driver: Driver,
    threads: usize,
    settings: DeviceSettings,
) -> Outcome<String> {
    capabilities(driver, threads, settings).map(|capabilities| capabilities.description)
}

/// The capabilities of this process's device of that vendor, as a rank with `threads` threads and these settings sees
/// them. The description begins with the vendor's name.
pub(crate) fn capabilities(
    driver: Driver,
    threads: usize,
    settings: DeviceSettings,
) -> Outcome<Capabilities> {
    let device = open(driver, threads, settings)?;
    let capabilities = device.capabilities().clone();
    Ok(Capabilities {
        description: format!("{}: {}", driver.vendor.name(), capabilities.description),
        ..capabilities
    })
}

/// This process's device of that vendor, with these threads and settings.
pub(crate) fn open(
    driver: Driver,
    threads: usize,
    settings: DeviceSettings,
) -> Outcome<Arc<dyn hal::Device>> {
    (driver.open)(own(threads, settings)?).map_err(|error| match error {
        hal::Error::Invalid { .. } if driver.vendor == VendorId::CPU => Failure::usage(error),
        _ => Failure::run(error),
    })
}

// The options with which this process's first rank opens its device; in a job of processes it is the only
// rank.
fn own(threads: usize, settings: DeviceSettings) -> Outcome<OpenOptions> {
    let Some(processes) = launcher::processes() else {
        return Ok(OpenOptions {
            threads,
            settings,
            ..OpenOptions::default()
        });
    };
    let place = processes.join().map_err(Failure::run)?;
    let transport = Some(processes.transport().map_err(Failure::run)?);
    Ok(OpenOptions {
        ordinal: place.local_rank,
        threads,
        transport,
        settings,
        host: None,
    })
}
