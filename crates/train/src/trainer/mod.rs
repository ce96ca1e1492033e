//! Trains any model, step by step.
//!
//! [`Trainer`] is one rank's model, parameters and optimiser. `options` sets how its steps run, and `checks` refuses what does not fit;
//! `update` passes gradients to the optimiser; `losses` has means of losses over ranks, and validation; `scale` adapts the loss
//! scale in f16; `recorded` queues a step in one call; `stage_updates` is a step whose stages update by themselves; `diverged`
//! finds the first non-finite number. For checkpoints, `snapshot` copies the state to the host, `save` writes the copy, `behind` does so beside the next steps, `local`
//! writes to the nodes' own disks, and `load` reads a checkpoint back, or `weights` of other files; `stored` is what they hold
//! besides tensors, and `scalars` the part of it that decides the next step; `disk_work` waits for slow disks; `fit` is a loop of
//! steps with callbacks; `predict` collects a model's outputs; `pairs` reports preferences; `peak` reports the peak memory.

mod behind;
mod checks;
pub(crate) mod disk_work;
mod diverged;
mod fit;
mod frozen;
mod fullest;
mod load;
mod local;
mod losses;
mod options;
mod pairs;
mod peak;
mod predict;
mod recorded;
mod save;
mod scalars;
mod scale;
mod snapshot;
mod stage_updates;
mod stored;
#[allow(
    clippy::module_inception,
    reason = "the type that the module is named for"
)]
mod trainer;
mod update;
mod watch;
mod weights;

pub use behind::{CheckpointDone, CheckpointWriter};
pub use fit::{Callback, StepDone};
pub use fullest::FullestRank;
pub use load::verify;
pub(crate) use load::{check_names, check_weights, fill, write_weights};
pub use local::{LocalFolder, Recovery, recover};
pub use options::{GroupOptions, Options};
pub use peak::PeakMemory;
pub use predict::{Output, Predictions};
pub use scalars::scalars;
pub use stored::Attached;
pub(crate) use stored::{first_sections, stored};
use trainer::StepOutcome;
pub use trainer::{Computed, StepResult, Trainer};
pub use weights::Weights;
