//! The placement of a job's ranks: the order of axes that costs least on its nodes, and the splits that no
//! order avoids.
//!
//! Read in this order: [`volumes`](mod@volumes) (bytes per step on each axis, by formula), [`cost`](mod@cost)
//! (their seconds on a machine), [`order`](mod@order) (the cheapest order of axes), [`warning`](mod@warning)
//! (an axis with much traffic that the nodes split nevertheless), `depths` (where a pipeline cuts the model).

pub mod cost;
mod depths;
pub mod order;
mod stages;
pub mod volumes;
pub mod warning;

pub use cost::Pricing;
pub use depths::depths;
pub use order::best_order;
pub use stages::stages;
pub use volumes::{Volume, volumes};
pub use warning::warning;
