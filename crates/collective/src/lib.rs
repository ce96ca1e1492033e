//! Collectives for programs that bring their own memory: vectors, slices, or another framework's buffers. No model, layer or
//! tensor of this library is needed.
//!
//! This crate is for trainers that exist already. The crate `fascicle` re-exports it as `fascicle::collective`. Begin with
//! [Trainers of your own](https://github.com/fascicle-rs/fascicle/blob/main/docs/other-trainers.md) in the manual of
//! [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! [`AxisGroup`] runs collectives over the ranks of one or several axes of the grid, on slices in place, or on memory of a device.
//! [`GradientReducer`] sums gradients over replicas while backward still runs, in buckets, and checks that all ranks push the same
//! gradients in the same order. [`ParameterShards`] divides parameters over replicas, for an optimiser whose state each rank holds
//! in part (ZeRO-1).
//!
//! On the CPU collectives work in the memory that they are given; only small gradients are copied. Other devices copy slices to their
//! memory and back; pass them memory of the device instead ([`Tensor::from_memory`],
//! [`Device::adopt_stream`](tensor::Device::adopt_stream)).
//!
//! Four ranks sum along one axis of their grid:
//!
//! ```
//! use fascicle_collective::{AxisGroup, Error, ReduceOp};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Four ranks as threads, two along X and two along Data.
//! let sums = job::Job::new([cpu::driver()]).grid("x=2,data=2")?.run(|context| {
//!     let mut numbers = [context.world().rank() as f32, 1.0];
//!     AxisGroup::named(context, "data")?.all_reduce(&mut numbers, ReduceOp::Sum)?;
//!     Ok::<_, Error>(numbers)
//! })?;
//! // Ranks 0 and 2 are one group, 1 and 3 the other.
//! assert_eq!(sums, [[2.0, 2.0], [4.0, 2.0], [2.0, 2.0], [4.0, 2.0]]);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod agreement;
mod axis_group;
mod pack;
mod reduced;
mod reducer;
mod shards;
mod step_plan;

pub use axis_group::AxisGroup;
pub use reduced::Reduced;
pub use reducer::{GradientReducer, ReducerOptions};
pub use shards::ParameterShards;
pub use tensor::{DType, Error, ReduceOp, Result, Scalar, Tensor};
