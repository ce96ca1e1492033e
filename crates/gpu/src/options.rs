//! The options of a device.

use hal::{DeviceSettings, Driver, OpenOptions, environment::table::SHARED_DEVICE};

/// The options of a device.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The device's number among those that the process sees.
    pub ordinal: usize,
    /// Whether ordinals beyond the last device wrap around to the first; those of staged ranks always do.
    pub wraps: bool,
    /// What the run's configuration chooses.
    pub settings: DeviceSettings,
    /// The vendor of the host's processors, for work beside the device.
    pub host: Option<Driver>,
}

impl Options {
    /// The options of a rank.
    ///
    /// Ranks that are threads need a device each, unless their collectives are staged or `NCCL_MULTI_RANK_GPU_ENABLE=1`
    /// lets the library serve several on one. Ranks that are processes take device i modulo the number of devices that
    /// their process sees, because a launcher may show each process its own device as number 0. If two of them share a
    /// device, the library reports it.
    pub fn of(options: OpenOptions) -> Options {
        let are_processes = options.transport.is_some();
        let is_shared = SHARED_DEVICE.read().as_deref() == Some("1");
        Options {
            ordinal: options.ordinal,
            wraps: are_processes || is_shared,
            settings: options.settings,
            host: options.host,
        }
    }
}
