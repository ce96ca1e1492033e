//! How a program finds the vendors that it carries and their devices, and chooses among them.

use crate::{
    Device, DeviceSettings, Error, Result, Transport, VendorId, environment::table::VENDOR,
};
use std::sync::Arc;

/// The options with which a device is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Its number among the devices that this process sees.
    pub ordinal: usize,
    /// Number of compute threads, for a device that is the host.
    pub threads: usize,
    /// How a device whose memory is host memory reaches ranks of other processes; `None` while all ranks are
    /// threads of this one. Devices with their own network ignore it.
    pub transport: Option<Arc<dyn Transport>>,
    /// Choices that change its numbers, of which it ignores those that it does not have; and the limit of its memory.
    pub settings: DeviceSettings,
    /// The vendor whose devices are the host's processors, for [`Device::open_host`]. A device that is the host ignores it.
    pub host: Option<Driver>,
}

impl Default for OpenOptions {
    /// The first device, one thread, no other processes.
    fn default() -> OpenOptions {
        OpenOptions {
            ordinal: 0,
            threads: 1,
            transport: None,
            settings: DeviceSettings::default(),
            host: None,
        }
    }
}

/// A vendor that a program carries.
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    /// The vendor's id.
    pub vendor: VendorId,
    /// Opens one of its devices.
    pub open: fn(OpenOptions) -> Result<Arc<dyn Device>>,
    /// Searches for its libraries and devices, without opening any.
    pub probe: fn() -> Probe,
}

/// The result of a search for a vendor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Whether a device can be opened.
    pub usable: bool,
    /// One line for each item found, or not found with the places searched.
    pub findings: Vec<String>,
}

/// The candidate vendors: the one with the requested name, otherwise the one that `FASCICLE_VENDOR` names, otherwise all
/// that the program carries.
///
/// # Errors
/// [`Error::Invalid`] for a vendor that the program does not carry, with the names of those that it does.
pub fn carried(asked: Option<&str>, drivers: &[Driver]) -> Result<Vec<Driver>> {
    match asked {
        Some(name) => Ok(vec![carried_one("--vendor", name, drivers)?]),
        None => carried_by(VENDOR.read().as_deref(), drivers),
    }
}

fn carried_by(variable: Option<&str>, drivers: &[Driver]) -> Result<Vec<Driver>> {
    match variable.filter(|name| !name.is_empty()) {
        Some(name) => Ok(vec![carried_one(VENDOR.name, name, drivers)?]),
        None => Ok(drivers.to_vec()),
    }
}

fn carried_one(asker: &str, name: &str, drivers: &[Driver]) -> Result<Driver> {
    let mut found = drivers.iter().filter(|driver| driver.vendor.name() == name);
    found.next().copied().ok_or_else(|| {
        // Vendors that a feature adds to this workspace's own program.
        let is_left_out = [VendorId::CUDA, VendorId::ROCM]
            .iter()
            .any(|vendor| vendor.name() == name);
        let why = match is_left_out {
            true => format!(": this program was built without the feature `{name}`"),
            false => String::new(),
        };
        let needed = format!("one of {}{why}", names(drivers));
        Error::invalid(asker, format!("found {name}"), needed)
    })
}

/// The one of these vendors whose devices are the host's processors.
pub fn of_host(drivers: &[Driver]) -> Option<Driver> {
    let mut all = drivers.iter();
    all.find(|driver| driver.vendor == VendorId::CPU).copied()
}

/// The first of these vendors that can open a device here.
///
/// # Errors
/// [`Error::Invalid`] in one sentence if there is none; for a single vendor, with what it reports about itself.
pub fn usable(drivers: &[Driver]) -> Result<Driver> {
    let mut reasons = Vec::new();
    for driver in drivers {
        let probe = (driver.probe)();
        if probe.usable {
            return Ok(*driver);
        }
        reasons.extend(probe.findings.last().cloned());
    }
    match drivers {
        [driver] => Err(Error::invalid(
            format!("vendor {}", driver.vendor.name()),
            reasons.join("; "),
            "a device that can be opened",
        )),
        _ => {
            let found = format!(
                "none usable among the vendors of this build ({})",
                names(drivers)
            );
            Err(Error::invalid(
                "device",
                found,
                "one that `fascicle doctor` finds usable",
            ))
        }
    }
}

fn names(drivers: &[Driver]) -> String {
    let names: Vec<_> = drivers.iter().map(|driver| driver.vendor.name()).collect();
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(vendor: VendorId, probe: fn() -> Probe) -> Driver {
        Driver {
            vendor,
            open: |_| Err(Error::invalid("open", "nothing", "a device")),
            probe,
        }
    }

    fn absent() -> Probe {
        Probe {
            usable: false,
            findings: vec!["HIP 6.4".into(), "no device".into()],
        }
    }

    fn present() -> Probe {
        Probe {
            usable: true,
            findings: vec!["a device".into()],
        }
    }

    fn two() -> [Driver; 2] {
        [
            driver(VendorId::ROCM, absent),
            driver(VendorId::CPU, present),
        ]
    }

    #[test]
    fn the_first_usable_vendor_is_taken_unless_one_is_named() {
        assert_eq!(
            usable(&two()).map(|driver| driver.vendor),
            Ok(VendorId::CPU)
        );
        for named in [
            carried(Some("rocm"), &two()),
            carried_by(Some("rocm"), &two()),
        ] {
            let error = usable(&named.unwrap()).unwrap_err().to_string();
            assert_eq!(
                error,
                "vendor rocm: no device, needs a device that can be opened"
            );
        }
        assert_eq!(carried_by(Some(""), &two()).unwrap().len(), 2);
    }

    #[test]
    fn a_vendor_from_elsewhere_is_chosen_by_its_name() {
        let mine = driver(VendorId::new("mine"), present);
        let all = [driver(VendorId::ROCM, absent), mine];
        for found in [carried(Some("mine"), &all), carried_by(Some("mine"), &all)] {
            assert_eq!(usable(&found.unwrap()).unwrap().vendor.name(), "mine");
        }
    }

    #[test]
    fn a_vendor_that_is_not_carried_is_named_with_those_that_are() {
        let error = carried(Some("cuda"), &two()).unwrap_err().to_string();
        let text =
            "found cuda, needs one of rocm, cpu: this program was built without the feature `cuda`";
        assert_eq!(error, format!("--vendor: {text}"));
        let error = carried_by(Some("cuda"), &two()).unwrap_err().to_string();
        assert_eq!(error, format!("FASCICLE_VENDOR: {text}"));
        let error = carried_by(Some("gpu"), &two()).unwrap_err().to_string();
        assert_eq!(error, "FASCICLE_VENDOR: found gpu, needs one of rocm, cpu");
    }
}
