//! The functions that CUDA and HIP share, in tables that the vendor crates fill from their libraries.
//!
//! The two vendors' libraries match call for call, so the signatures are declared here, once, and a vendor crate gives
//! the names, numbers and few calls that differ ([`VendorCalls`]). No type above the tables has a parameter for the
//! vendor: a call through a pointer costs nanoseconds in front of a driver call.

mod blas;
mod functions;
pub mod lt;
mod runtime;

pub use blas::{
    Blas, BlasFunctions, BlasNames, BlasTypes, BlasValues, ColumnMajor, SetMode, SetWorkspace,
};
pub use functions::{Describe, Named, Opaque, Status, Statuses, StoreText};
pub use lt::{EPILOGUE_BIAS, EPILOGUE_GELU, EPILOGUE_GELU_BIAS, EPILOGUE_NONE, Lt};
pub use runtime::{
    Address, CAPTURE_THREAD_LOCAL, EVENT_DEFAULT, Handle, KernelCall, LOCKED_PORTABLE, NO_DEVICE,
    NOT_READY, NOT_SUPPORTED, OUT_OF_MEMORY, PINNED_PORTABLE, Properties, Runtime,
    RuntimeFunctions, RuntimeNames, RuntimeTable, RuntimeValues, STREAM_NON_BLOCKING, VendorCalls,
    opaque, pointer,
};

use hal::environment::Variable;
use rccl_sys::{Missing, Nccl};
use std::{fmt, path::PathBuf};

/// The failure that a vendor's library reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The C function.
    pub call: &'static str,
    /// Its status.
    pub code: i64,
    /// The status in words.
    pub reason: String,
    /// Whether the device was out of memory.
    pub out_of_memory: bool,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: code {}, {}", self.call, self.code, self.reason)
    }
}

/// Result with [`Fault`].
pub type Outcome<T> = Result<T, Fault>;

/// A code object of the kernels: architecture and image.
pub type Object = (String, std::borrow::Cow<'static, [u8]>);

/// Everything of one vendor: its tables, and the code objects of its kernels.
#[derive(Debug)]
pub struct Tables {
    /// Driver or runtime.
    pub runtime: Box<dyn Runtime>,
    /// GEMMs, or why there are none.
    pub blas: Result<Blas, Missing>,
    /// GEMMs by a chosen algorithm and with an epilogue, or why there are none.
    pub lt: Result<Lt, String>,
    /// Collectives and the name of their library, or why there are none.
    pub collectives: Result<(String, Nccl), Missing>,
    /// The kernels, for each architecture that this build or the user has compiled.
    pub objects: Vec<Object>,
    /// Where each library was found.
    pub found: Vec<(String, PathBuf)>,
    /// The environment variable by which the vendor's library hides devices.
    pub visible_devices: Variable,
    /// The environment variable with the number of hardware queues, and the vendor's own number.
    pub queues: (Variable, usize),
}

impl Tables {
    /// Hardware queues of a device.
    pub fn num_queues(&self) -> usize {
        let (variable, own) = self.queues;
        let stated = variable.read().and_then(|text| text.trim().parse().ok());
        stated.filter(|number| *number > 0).unwrap_or(own)
    }
}
