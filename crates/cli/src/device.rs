//! Which of the program's vendors to use.

use crate::{
    failure::{Failure, Outcome},
    launcher,
};
use hal::{Driver, OpenOptions, Vendor};

/// The value of `--vendor`.
pub(crate) fn named(name: &str) -> Result<Vendor, String> {
    [Vendor::Cuda, Vendor::Rocm, Vendor::Cpu]
        .into_iter()
        .find(|vendor| vendor.name() == name)
        .ok_or_else(|| "needs cuda, rocm or cpu".to_owned())
}

/// The vendors to choose among: the one that was asked for, or all that the program carries.
pub(crate) fn chosen(asked: Option<Vendor>, drivers: &[Driver]) -> Outcome<Vec<Driver>> {
    let Some(vendor) = asked else { return Ok(drivers.to_vec()) };
    match drivers.iter().find(|driver| driver.vendor == vendor) {
        Some(driver) => Ok(vec![*driver]),
        None => Err(Failure::usage(format!(
            "--vendor: found {vendor}, needs one of {}: this program was built without the feature `{vendor}`",
            names(drivers),
            vendor = vendor.name()
        ))),
    }
}

/// The first vendor that can open a device here.
pub(crate) fn preferred(drivers: &[Driver]) -> Outcome<Driver> {
    let mut reasons = Vec::new();
    for driver in drivers {
        let probe = (driver.probe)();
        if probe.usable {
            return Ok(*driver);
        }
        reasons.extend(probe.findings.last().cloned());
    }
    match drivers {
        // What the vendor says of itself, where it was the only one to be asked.
        [driver] => Err(Failure::run(format!("--vendor {}: {}", driver.vendor.name(), reasons.join("; ")))),
        _ => Err(Failure::run(format!(
            "device: none usable among the vendors of this build ({}); see `fascicle doctor`",
            names(drivers)
        ))),
    }
}

fn names(drivers: &[Driver]) -> String {
    let names: Vec<_> = drivers.iter().map(|driver| driver.vendor.name()).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// This process's device of that vendor in words, as a rank with so many threads sees it.
pub(crate) fn described(driver: Driver, threads: usize) -> Outcome<String> {
    let device = (driver.open)(own(threads)?).map_err(|error| match error {
        hal::Error::Invalid { .. } if driver.vendor == Vendor::Cpu => Failure::usage(error),
        _ => Failure::run(error),
    })?;
    Ok(format!("{}: {}", driver.vendor.name(), device.capabilities().description))
}

// What the first rank of this process opens: of a job of processes, its only one.
fn own(threads: usize) -> Outcome<OpenOptions> {
    let Some(processes) = launcher::processes() else {
        return Ok(OpenOptions { ordinal: 0, threads, transport: None });
    };
    let place = processes.join().map_err(Failure::run)?;
    let transport = Some(processes.transport().map_err(Failure::run)?);
    Ok(OpenOptions { ordinal: place.local_rank, threads, transport })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hal::Probe;

    fn driver(vendor: Vendor, probe: fn() -> Probe) -> Driver {
        Driver { vendor, open: |_| Err(hal::Error::invalid("open", "nothing", "a device")), probe }
    }

    fn absent() -> Probe {
        Probe { usable: false, findings: vec!["HIP 6.4".into(), "no device".into()] }
    }

    fn present() -> Probe {
        Probe { usable: true, findings: vec!["a device".into()] }
    }

    #[test]
    fn the_first_usable_vendor_is_taken_unless_one_is_named() {
        let drivers = [driver(Vendor::Rocm, absent), driver(Vendor::Cpu, present)];
        assert_eq!(preferred(&drivers).map(|driver| driver.vendor), Ok(Vendor::Cpu));
        let named = chosen(Some(Vendor::Rocm), &drivers).unwrap();
        let failure = preferred(&named).unwrap_err();
        assert_eq!(failure, Failure::Run("--vendor rocm: no device".into()));
    }

    #[test]
    fn a_vendor_that_is_not_carried_is_wrong_use() {
        let drivers = [driver(Vendor::Rocm, absent), driver(Vendor::Cpu, present)];
        let failure = chosen(Some(Vendor::Cuda), &drivers).unwrap_err();
        let text =
            "--vendor: found cuda, needs one of rocm, cpu: this program was built without the feature `cuda`";
        assert_eq!(failure, Failure::Usage(text.into()));
        assert!(named("cuda").is_ok() && named("gpu").is_err());
    }
}
