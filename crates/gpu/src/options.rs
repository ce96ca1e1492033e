//! What a device is opened with.

use hal::{CollectiveBackend, EpiloguePlacement, OpenOptions, environment::table::SHARED_DEVICE};
use std::path::PathBuf;

/// What a device is opened with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Its number among the devices that the process sees.
    pub ordinal: usize,
    /// The backend that runs the collectives.
    pub collectives: CollectiveBackend,
    /// Whether ordinals beyond the last device begin again with the first; staged ranks always do.
    pub wraps: bool,
    /// The file of the fastest variants of matmuls. Where it is not there yet, the first step times them and the first
    /// rank writes it; without a name every matmul goes the library's own way.
    pub matmul_choices: Option<PathBuf>,
    /// Where a bias and GELU are computed.
    pub epilogues: EpiloguePlacement,
}

impl Options {
    /// The options of a rank.
    ///
    /// Ranks that are threads have a device each, unless their collectives are staged or `NCCL_MULTI_RANK_GPU_ENABLE=1`
    /// lets the library serve several on one. Ranks that are processes take device i modulo the devices that theirs
    /// sees: a launcher may show each of them its own as number 0. If two of them meet on one, the library says so.
    pub fn of(options: OpenOptions) -> Options {
        let are_processes = options.transport.is_some();
        let is_shared = SHARED_DEVICE.read().as_deref() == Some("1");
        Options {
            ordinal: options.ordinal,
            collectives: options.settings.collectives,
            wraps: are_processes || is_shared,
            matmul_choices: options.settings.matmul_choices,
            epilogues: options.settings.epilogues,
        }
    }
}
