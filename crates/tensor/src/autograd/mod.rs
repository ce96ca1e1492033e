//! The tape: forward code is recorded, and gradients run back along it.
//!
//! A [`Var`] is a tensor with its place on the tape. Every differentiable operation adds a node that knows its inputs
//! and how to turn the gradients of its outputs into those of its inputs; what the node saved is freed as the backward
//! pass goes by. Nodes are numbered as they are made, and [`backward()`] visits them from the last to the first: that
//! order is fixed, so sums of gradients have the same bits in every run.

mod backward;
mod dims;
mod node;
mod ops;
mod rows;
mod var;

pub use backward::backward;
pub use node::Gradients;
pub use var::{Gradient, Var};
