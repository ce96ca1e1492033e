//! All tests in one program, which is linked once and which `mpirun` starts: parity with one rank, counted copies, and mistakes.

mod copies;
#[path = "../../../shared/counting.rs"]
mod counting;
mod mistakes;
mod models;
mod parity;
