//! Where the ranks of a GPU job meet on the host (`gpu/src/collectives/staged`).

mod models;

#[path = "../../../gpu/src/collectives/staged/group.rs"]
mod group;
#[path = "../../../gpu/src/collectives/staged/meeting.rs"]
mod meeting;
#[path = "../../../gpu/src/collectives/staged/readings.rs"]
mod readings;
#[path = "../../../gpu/src/collectives/staged/registry.rs"]
mod registry;

pub use models::*;
