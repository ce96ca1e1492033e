//! Types and values of `nccl.h`, which RCCL's `rccl.h` repeats.

use std::ffi::{c_char, c_int, c_void};

/// `ncclResult_t`.
pub type Status = c_int;

/// `ncclComm_t`: an opaque pointer.
pub type Comm = *mut c_void;

/// `ncclDataType_t`.
pub type DataType = c_int;

/// `ncclRedOp_t`.
pub type Redop = c_int;

/// Values of [`Status`].
pub mod status {
    use super::Status;

    /// `ncclSuccess`.
    pub const SUCCESS: Status = 0;
    /// `ncclInProgress`: a call on a non-blocking communicator has not ended yet.
    pub const IN_PROGRESS: Status = 7;
}

/// Values of [`DataType`].
pub mod data_type {
    use super::DataType;

    /// `ncclUint8`.
    pub const UINT8: DataType = 1;
    /// `ncclInt32`.
    pub const INT32: DataType = 2;
    /// `ncclUint32`.
    pub const UINT32: DataType = 3;
    /// `ncclFloat16`.
    pub const FLOAT16: DataType = 6;
    /// `ncclFloat32`.
    pub const FLOAT32: DataType = 7;
    /// `ncclFloat64`.
    pub const FLOAT64: DataType = 8;
    /// `ncclBfloat16`.
    pub const BFLOAT16: DataType = 9;
}

/// `ncclSum`.
pub const REDUCE_SUM: Redop = 0;
/// `ncclMax`.
pub const REDUCE_MAX: Redop = 2;
/// `ncclMin`.
pub const REDUCE_MIN: Redop = 3;
/// `ncclAvg`, since NCCL 2.10.
pub const REDUCE_AVG: Redop = 4;

/// `ncclUniqueId`: made by one rank and needed by all ranks of a communicator.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UniqueId {
    /// Opaque bytes.
    pub internal: [c_char; 128],
}

/// `ncclConfig_t` of version 2.17: the oldest layout with every field that we set, and RCCL's full layout.
///
/// The library reads `size` bytes, and takes defaults for fields that a later version added behind them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Size of this layout in bytes.
    pub size: usize,
    /// Marks an initialised configuration.
    pub magic: u32,
    /// The version whose layout this is.
    pub version: u32,
    /// 0: calls return at once, and the caller polls.
    pub blocking: c_int,
    /// Thread blocks in a cluster.
    pub cga_cluster_size: c_int,
    /// The fewest thread blocks to use.
    pub min_ctas: c_int,
    /// The most thread blocks to use.
    pub max_ctas: c_int,
    /// The network plug-in's name.
    pub net_name: *const c_char,
    /// 1: communicators that were split share resources.
    pub split_share: c_int,
}

const UNDEFINED: c_int = c_int::MIN;

impl Config {
    /// Every field undefined, which selects the library's defaults, except `blocking`.
    pub const fn with_blocking(blocking: bool) -> Config {
        Config {
            size: size_of::<Config>(),
            magic: 0xcafe_beef,
            version: 21700,
            blocking: blocking as c_int,
            cga_cluster_size: UNDEFINED,
            min_ctas: UNDEFINED,
            max_ctas: UNDEFINED,
            net_name: std::ptr::null(),
            split_share: UNDEFINED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn the_configuration_has_the_layout_of_2_17() {
        let offsets = [
            offset_of!(Config, size),
            offset_of!(Config, magic),
            offset_of!(Config, version),
            offset_of!(Config, blocking),
            offset_of!(Config, cga_cluster_size),
            offset_of!(Config, min_ctas),
            offset_of!(Config, max_ctas),
            offset_of!(Config, net_name),
            offset_of!(Config, split_share),
        ];
        assert_eq!(offsets, [0, 8, 12, 16, 20, 24, 28, 32, 40]);
        assert_eq!((size_of::<Config>(), size_of::<UniqueId>()), (48, 128));
    }
}
