//! Trains any model, step by step.
//!
//! [`Trainer`] is one rank's model, parameters and optimiser. `options` sets how its steps run; `scale` adapts
//! the loss scale in f16; `recorded` queues a step in one call; `diverged` finds the first non-finite number;
//! `save` moves parameters to and from checkpoints; `disk_work` waits for slow disks; `fit` is a loop of steps with callbacks; `predict` collects
//! a model's outputs; `peak` reports the peak memory.

mod disk_work;
mod diverged;
mod fit;
mod options;
mod peak;
mod predict;
mod recorded;
mod save;
mod scale;
#[allow(
    clippy::module_inception,
    reason = "the type that the module is named for"
)]
mod trainer;

pub use fit::{Callback, StepDone};
pub use options::{GroupOptions, Options};
pub use peak::PeakMemory;
pub use predict::{Output, Predictions};
pub use save::{Attached, verify};
pub(crate) use save::{check_names, read_weights, stored};
pub use trainer::{Computed, StepResult, Trainer};
