//! The C interface of NCCL and RCCL: types, values and a table of functions opened at run time.
//!
//! This crate is for the GPU vendors of [Fascicle](https://github.com/fascicle-rs/fascicle), and for other programs that call
//! these libraries without linking them. To train, begin with the crate `fascicle` and
//! [GPUs](https://github.com/fascicle-rs/fascicle/blob/main/docs/gpus.md) of its manual.
//!
//! The two libraries export the same names with the same meaning, so one table serves both. Both may be open in one
//! process, because [`Library`] opens them with local symbol scope. All libraries of the vendors are found in the same
//! way, so the vendor crates use [`Library`] and [`function_table!`] too.
//!
//! Read in this order: [`library`], [`table`], [`types`], [`nccl`]. The crate `gpu` makes the calls and
//! keeps the libraries' rules.

pub mod library;
pub mod nccl;
pub mod table;
pub mod types;

pub use library::{Library, Missing, Search};
pub use nccl::Nccl;
pub use types::{
    Comm, Config, DataType, REDUCE_AVG, REDUCE_MAX, REDUCE_MIN, REDUCE_SUM, Redop, Status,
    UniqueId, data_type, status,
};
