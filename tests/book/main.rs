//! The manual agrees with the code: its pages, links, commands and configurations, and the table of settings.
//!
//! That its Rust runs is the work of the doc tests (`src/manual.rs`).

mod blocks;
mod campaign;
mod devices;
mod environment;
mod links;
mod pages;
mod settings;
