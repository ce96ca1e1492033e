//! How a program finds out which vendors it carries and what each of them sees.

use crate::{Device, Result, Transport, Vendor};
use std::sync::Arc;

/// What a device is opened with.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Its number among the devices that this process sees.
    pub ordinal: usize,
    /// Threads that a device which is the host computes with.
    pub threads: usize,
    /// How a device whose memory is the host's reaches ranks of other processes; `None` while all ranks are threads of
    /// this one. Devices with a network of their own ignore it.
    pub transport: Option<Arc<dyn Transport>>,
}

/// A vendor that a program carries.
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    /// Which one.
    pub vendor: Vendor,
    /// Opens one of its devices.
    pub open: fn(OpenOptions) -> Result<Arc<dyn Device>>,
    /// Looks for its libraries and devices, without opening any.
    pub probe: fn() -> Probe,
}

/// What a look for a vendor found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Whether a device can be opened.
    pub usable: bool,
    /// One line for each thing found, or not found and where it was looked for.
    pub findings: Vec<String>,
}
