//! What most programs need.

pub use crate::launch::launch;
pub use grid::{Axis, AxisOrder, Degrees, Grid};
pub use nn::{Assembled, Builder, DTensor, auto_parallelize};
pub use parallel::{
    Context, DType, Error, Init, MicroBatch, Model, Parameter, Pass, Result, Route, Settings,
    Wires, data::SetOptions, layers::Loss,
};
pub use tensor::{Device, Tensor, Var};
pub use train::{
    Trainer,
    batches::{Batches, Rows},
    optimiser::{AdamW, Rate, Sgd},
    trainer::Options,
};
