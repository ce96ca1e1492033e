//! Machine descriptions: the capabilities of a device and its links, each number with its source.
//!
//! A [`Machine`] is read from a TOML file in `crates/grid/machines/`, or from one that `fascicle bench --save`
//! wrote. Read in this order: [`quantity`] (a number, its class and its source), [`device`] (memory, peaks,
//! kernels, launches), [`gemm`] (the speed of a GEMM by shape), [`attention`] (fused, or with stored scores), [`links`] (bandwidths and latencies),
//! [`route`] (the placement of a group on the nodes, and the cost of a collective there), [`crowding`]
//! (ranks that share a host's cores), and `peak` (the peak of a job). [`Mistake`] says what is wrong with a file.

pub mod attention;
mod bounds;
pub mod collective;
pub mod crowding;
pub mod device;
pub mod file;
pub mod gemm;
pub mod links;
mod mistake;
mod peak;
pub mod quantity;
pub mod route;
pub mod suggest;

pub use attention::{AttentionForm, stored_attention_bytes};
pub use collective::{Algorithm, Cost, Operation};
pub use crowding::Lateness;
pub use device::{Attention, Device, Launch};
pub use file::{Machine, MachineError};
pub use gemm::{GemmModel, GemmShape, Variant};
pub use links::{Links, TableRow};
pub use mistake::{Mistake, UnknownName, no_such_key};
pub use quantity::{Class, Quantity};
pub use route::{Placement, Route};
