//! The C interface of NCCL and RCCL: types, values and a table of functions opened at run time.
//!
//! The two libraries export the same names with the same meaning, so one table serves both, and both may be open in
//! one process: [`Library`] opens with local symbol scope. How a vendor's library is found is the same for all of them,
//! so the other vendor crates fill their tables with [`Library`] and [`function_table!`] too.
//!
//! Read in this order: [`library`], [`table`], [`types`], [`nccl`]. Nothing here is safe to call without knowing the
//! library's own rules; the crate `gpu` does.

pub mod library;
pub mod nccl;
pub mod table;
pub mod types;

pub use library::{Library, Missing, Search};
pub use nccl::Nccl;
pub use types::{
    Comm, Config, DataType, REDUCE_MAX, REDUCE_MIN, REDUCE_SUM, Redop, Status, UniqueId, data_type,
    status,
};
