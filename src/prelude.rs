//! What most programs need.

pub use crate::launch::launch;
pub use grid::{Axis, AxisOrder, Degrees, Grid};
pub use nn::{Builder, DTensor, Gpt, GptConfig, Model, auto_parallelize};
pub use parallel::{Context, DType, Error, Result, Settings, data::SetOptions};
pub use tensor::{Device, Tensor, Var};
