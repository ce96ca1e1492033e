//! The tape: it records the forward code, and gradients run back along it.
//!
//! A [`Var`] is a tensor with its place on the tape. Every differentiable operation adds a node that knows its
//! inputs and how to turn the gradients of its outputs into those of its inputs. The backward pass frees what a
//! node saved as soon as it has used it. Nodes are numbered in the order of their creation, and [`backward()`]
//! visits them from the last to the first. That order is fixed, so sums of gradients have the same bits in
//! every run.
//!
//! # Errors
//! Each operation lists the arguments that it refuses; the others are those of [`ops`](crate::ops). An error of an
//! operation's gradient comes from [`backward()`].

mod backward;
mod dims;
mod node;
mod ops;
mod rows;
mod var;

pub use backward::backward;
pub use node::Gradients;
pub use var::{Gradient, Var};
