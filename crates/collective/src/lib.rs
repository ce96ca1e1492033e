//! Collectives for programs that bring their own memory: vectors, slices, or another framework's buffers. No model, layer or
//! tensor of this library is needed.
//!
//! [`AxisGroup`] runs collectives over the ranks of one or several axes of the grid, on slices in place, or on memory of a device.
//! [`GradientReducer`] sums gradients over replicas while backward still runs, in buckets, and checks that all ranks push the same
//! gradients in the same order. [`ParameterShards`] divides parameters over replicas, for an optimiser whose state each rank holds
//! in part (ZeRO-1).
//!
//! On the CPU no element is copied: collectives work in the memory that they are given. Other devices copy slices to their memory
//! and back; pass them memory of the device instead ([`Tensor::from_memory`], [`Device::adopt_stream`](tensor::Device::adopt_stream)).

#![forbid(unsafe_code)]

mod agreement;
mod axis_group;
mod reducer;
mod shards;

pub use axis_group::AxisGroup;
pub use reducer::{GradientReducer, Reduced, ReducerOptions};
pub use shards::ParameterShards;
pub use tensor::{DType, Error, ReduceOp, Result, Scalar, Tensor};
