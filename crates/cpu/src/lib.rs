//! The reference vendor: SIMD kernels, GEMMs, and collectives between threads of one process.
//!
//! A program that runs on processors alone may name it; the crate `fascicle` has it among its vendors. To train, begin with that
//! crate and [Your first model](https://github.com/fascicle-rs/fascicle/blob/main/docs/first-model.md), the first chapter of the
//! manual of [Fascicle](https://github.com/fascicle-rs/fascicle). To write a vendor, read this one beside `fascicle-hal`.
//!
//! The host is the device. [`open`] gives a rank its share of the machine. Ranks are threads of one process, or
//! processes that supply a transport, and each opens its own device. Read in this order: [`device`],
//! [`memory`], [`stream`] and [`collectives`] (how ranks work together); [`pool`], [`element`] and [`view`]
//! (the basis of all kernels), with [`lanes`] and [`codes`]; [`kernels`], [`matmul`] and [`attention`].
//!
//! Results do not depend on the number of threads, nor on which thread arrived first: the same ranks give the
//! same bits.

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "the list above is for readers of the source"
)]
// Iterators, `copy_from_slice` and references to closures are functions of their own. One that the compiler leaves a call is
// compiled for the oldest processor, and keeps arrays in memory that belong in registers.
#![allow(
    clippy::manual_memcpy,
    clippy::needless_range_loop,
    clippy::redundant_closure,
    reason = "loops of kernels become vector instructions only where they are written out"
)]

mod attention;
mod codes;
mod collectives;
mod device;
mod driver;
mod element;
mod kernels;
mod lanes;
mod machine;
mod matmul;
mod memory;
#[cfg(not(fascicle_simulated))]
mod patience;
// A thread that spins while others wait for its turn gains nothing.
#[cfg(fascicle_simulated)]
#[path = "../../interleavings/src/patience.rs"]
mod patience;
mod pool;
mod stream;
mod view;
mod wait;

pub use collectives::reduce;
pub use device::{Options, open};
pub use driver::driver;
