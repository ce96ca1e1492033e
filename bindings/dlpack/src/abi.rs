//! The structs of `dlpack.h`, under its names.

use std::ffi::c_void;

/// The major version that this crate speaks: structs of another one may differ in anything but where their deleter is.
pub(crate) const MAJOR: u32 = 1;

/// `DLPACK_FLAG_BITMASK_READ_ONLY`: the elements must not be written.
pub const FLAG_READ_ONLY: u64 = 1;

/// The version of the structs.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DLPackVersion {
    /// Changes when the structs do.
    pub major: u32,
    /// Changes when a value is added.
    pub minor: u32,
}

/// Where elements are.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DLDevice {
    /// `DLDeviceType`.
    pub device_type: i32,
    /// Its number among those of its type; 0 for the host.
    pub device_id: i32,
}

/// The type of an element.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DLDataType {
    /// `DLDataTypeCode`.
    pub code: u8,
    /// Bits of a lane.
    pub bits: u8,
    /// Lanes of a vector; 1 for a number.
    pub lanes: u16,
}

/// A tensor that somebody else keeps.
#[repr(C)]
#[derive(Debug)]
pub struct DLTensor {
    /// The memory, with the first element `byte_offset` bytes after it.
    pub data: *mut c_void,
    /// Where it is.
    pub device: DLDevice,
    /// Number of dims.
    pub ndim: i32,
    /// Type of the elements.
    pub dtype: DLDataType,
    /// Sizes of the dims.
    pub shape: *mut i64,
    /// Elements from one index to the next on each dim; null for row-major order.
    pub strides: *mut i64,
    /// Bytes before the first element.
    pub byte_offset: u64,
}

/// A tensor with its owner.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// The version of this struct.
    pub version: DLPackVersion,
    /// The owner's own.
    pub manager_ctx: *mut c_void,
    /// Gives the tensor back to its owner; null if it wants nothing back.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// A sum of flags.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}
