//! Grids and collectives for C: the functions of `include/fascicle.h`, which documents them, over the module `collective` of the crate `fascicle`.
//!
//! Begin with [Trainers of your own](https://github.com/fascicle-rs/fascicle/blob/main/docs/other-trainers.md#c-c-fortran)
//! in the manual of [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! Each function converts its arguments, calls the library, and keeps an error as text for `fascicle_error`. Nothing unwinds into
//! the caller.

mod collectives;
mod groups;
mod memory;
mod reducer;
mod run;
mod status;
