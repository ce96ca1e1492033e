//! What most programs need.
//!
//! `Error` and `Result` are those of the seam, which models, layers and kernels return; a program's `main` returns
//! [`fascicle::Result`](crate::Result), into which every error of the library converts.

pub use crate::launch::launch;
pub use grid::{Axis, AxisOrder, Degrees, Grid};
pub use hal::random::Key;
pub use nn::{Assembled, Builder, DTensor, Embedding, Linear, Norm, auto_parallelize};
pub use parallel::{
    Context, DType, Error, Init, Input, MicroBatch, Model, Parameter, Pass, Result, Route,
    Settings, Wires,
    data::{SetOptions, Sharding},
    layers::Loss,
    pipeline::ScheduleKind,
};
pub use tensor::{Device, Tensor, Var};
pub use train::{
    Trainer,
    batches::{Batches, Rows},
    config::Precision,
    optimiser::{Adafactor, AdamW, AdamW8bit, Lion, Muon, Rate, Sgd},
    trainer::Options,
};
