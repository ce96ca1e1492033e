//! What most programs need.

pub use crate::launch::launch;
pub use grid::{Axis, AxisOrder, Degrees, Grid};
pub use hal::random::Key;
pub use nn::{Assembled, Builder, DTensor, Embedding, Linear, Norm, auto_parallelize};
pub use parallel::{
    Context, DType, Error, Init, Input, MicroBatch, Model, Parameter, Pass, Result, Route,
    Settings, Wires, data::SetOptions, layers::Loss, pipeline::ScheduleKind,
};
pub use tensor::{Device, Tensor, Var};
pub use train::{
    Trainer,
    batches::{Batches, Rows},
    config::Precision,
    optimiser::{AdamW, Rate, Sgd},
    trainer::Options,
};
