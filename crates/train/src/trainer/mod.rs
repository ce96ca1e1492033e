//! Training: a step, a validation, and a whole run of them.
//!
//! [`Trainer`] is one rank's model, parameters and optimiser, and does single steps; `batch` cuts the global batch for
//! a rank; `scale` adapts the loss scale in f16; `diverged` finds what went wrong; `save` moves parameters to and from
//! checkpoints; `peak` tells the most memory taken; `recorded` queues a step in one call; [`run`](fn@run) is a whole run with records, validation, checkpoints and a clean stop.

mod batch;
mod diverged;
mod observer;
mod peak;
mod recorded;
mod run;
mod save;
mod scale;
#[allow(
    clippy::module_inception,
    reason = "the type that the module is named for"
)]
mod trainer;

pub use batch::Shares;
pub use observer::{Observer, Started, Stop, Summary};
pub use peak::PeakMemory;
pub use run::{Run, run};
pub use save::{Sections, load, save};
pub(crate) use save::{read_weights, stored_sections};
pub use trainer::{StepResult, Trainer};
