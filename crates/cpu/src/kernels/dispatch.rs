//! From an element type as a value to a Rust type.

use hal::{DType, DeviceId, Error, VendorId};

/// Runs `$body` with `$T` as the float type that `$dtype` names; refuses any other type.
macro_rules! dispatch {
    ($operation:expr, $dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            hal::DType::F64 => $crate::kernels::dispatch::dispatch!(@run f64, $T, $body),
            hal::DType::F32 => $crate::kernels::dispatch::dispatch!(@run f32, $T, $body),
            hal::DType::Bf16 => $crate::kernels::dispatch::dispatch!(@run half::bf16, $T, $body),
            hal::DType::F16 => $crate::kernels::dispatch::dispatch!(@run half::f16, $T, $body),
            other => Err($crate::kernels::dispatch::unsupported($operation, other)),
        }
    };
    (@run $type:ty, $T:ident, $body:expr) => {{
        type $T = $type;
        $body
    }};
}

/// As `dispatch!`, for the two types that hold master weights, gradients and statistics.
macro_rules! dispatch_accumulator {
    ($operation:expr, $dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            hal::DType::F64 => $crate::kernels::dispatch::dispatch!(@run f64, $T, $body),
            hal::DType::F32 => $crate::kernels::dispatch::dispatch!(@run f32, $T, $body),
            other => Err($crate::kernels::dispatch::unsupported($operation, other)),
        }
    };
}

pub(crate) use {dispatch, dispatch_accumulator};

/// The error for an element type that a kernel does not accept, or for a kernel without a function.
#[cold]
pub(crate) fn unsupported(operation: &str, dtype: impl Into<Option<DType>>) -> Error {
    let device = DeviceId {
        vendor: VendorId::CPU,
        ordinal: 0,
    };
    Error::Unsupported {
        operation: operation.into(),
        dtype: dtype.into(),
        device,
    }
}
