//! The reference vendor: SIMD kernels, products, collectives between threads of one process.
//!
//! The host is the device. [`open`] gives a rank its share of the machine; ranks are threads of one process, or
//! processes that bring a transport, and each opens its own. Read in this order: [`device`], [`memory`], [`stream`] and [`collectives`] (how ranks work together);
//! [`pool`], [`element`] and [`view`] (what all kernels stand on); [`kernels`], [`product`] and [`attention`].
//!
//! Results do not depend on the number of threads, nor on which thread came first: the same ranks give the same bits.

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "the list above is for readers of the source"
)]

mod attention;
mod collectives;
mod device;
mod driver;
mod element;
mod kernels;
mod machine;
mod matmul;
mod memory;
mod pool;
mod stream;
mod view;
mod wait;

pub use collectives::reduce;
pub use device::{Options, open};
pub use driver::driver;
