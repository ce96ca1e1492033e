//! Where the ranks of a job sit: which order of axes costs least on its nodes, and what cannot be helped.
//!
//! Read in this order: [`volumes`](mod@volumes) (bytes of a step on each axis, by formula), [`cost`](mod@cost) (their
//! seconds on a machine), [`order`](mod@order) (the cheapest order of axes), [`warning`](mod@warning) (a chatty axis
//! that the nodes split all the same).

pub mod cost;
pub mod order;
mod stages;
pub mod volumes;
pub mod warning;

pub use cost::Pricing;
pub use order::best_order;
pub use stages::stages;
pub use volumes::{Volume, volumes};
pub use warning::warning;
