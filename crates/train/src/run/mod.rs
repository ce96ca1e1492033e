//! A complete run of the program: a configuration, data and a folder in; records, checkpoints and a summary
//! out.
//!
//! [`run`](fn@run) trains on one rank. An [`Observer`] receives its progress, and a [`Stop`] ends it early. [`audit`]
//! executes steps of a run again.

pub mod audit;
mod bits;
mod copies;
pub(crate) mod dry;
mod fallback;
mod files;
mod folder;
mod local;
mod observer;
mod patience;
mod plot;
pub mod recording;
mod reference;
pub mod resume;
#[allow(
    clippy::module_inception,
    reason = "the function that the module is named for"
)]
mod run;
mod same;
mod samples;
mod session;
mod stragglers;
mod trace;
mod traffic;

pub use bits::{settle_bits, settle_generation};
pub use copies::{StoreCopy, StoreReport};
pub use fallback::{Fallback, recover_stored};
pub use folder::RunLock;
pub use local::{has_local_checkpoints, recover_local};
pub use observer::{Observer, Started, Stop, Summary};
pub use patience::BestValidation;
pub use run::{Resume, Run, run};
pub use samples::{SampleRecord, first_prompt};
pub use stragglers::{PATIENCE, SlowRank, SpeedRecord};
pub use traffic::AxisTraffic;
