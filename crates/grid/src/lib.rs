//! The process grid as pure arithmetic: the position of each rank, its communication partners, and its pieces
//! of tensors.
//!
//! This crate is for programs that divide tensors over ranks, with or without the rest of
//! [Fascicle](https://github.com/fascicle-rs/fascicle). The crate `fascicle` re-exports it as `fascicle::grid`. Begin with [Grids
//! and what they cost](https://github.com/fascicle-rs/fascicle/blob/main/docs/grids.md) in the manual.
//!
//! Read in this order: [`Axis`], [`Degrees`], [`AxisOrder`] and [`Coordinates`] are the vocabulary. [`Grid`]
//! combines them and answers questions about ranks and groups. [`shard_range`], [`Layout`] and [`IndexBox`]
//! state what a rank holds of a tensor. [`factorisations()`] lists the grids, and [`Demands`] selects those
//! that a model can use. [`Mapping`] places ranks on a grid so that neighbours share a node.
//!
//! Nothing here communicates with a device or another process. The cost of a grid on a machine belongs to the
//! planner.
//!
//! ```
//! use fascicle_grid::{Axis, AxisOrder, Grid, Layout};
//!
//! let grid = Grid::for_ranks("x=2,z=2,data=2".parse()?, AxisOrder::default(), 8)?;
//! assert_eq!(grid.group(5, Axis::Z), [5, 7]);
//!
//! // A weight of 6 x 8 whose columns are cut by X and then by Z.
//! let weight = Layout::cut(vec![vec![], vec![Axis::X, Axis::Z]])?;
//! assert_eq!(weight.local_shape(&[6, 8], &grid, &grid.coordinates(5)), [6, 2]);
//! # Ok::<(), fascicle_grid::Error>(())
//! ```

#![forbid(unsafe_code)]

mod axis;
mod coordinates;
mod degrees;
mod degrees_text;
mod demands;
mod error;
mod factorisations;
mod grid;
mod groups;
mod index_box;
mod layout;
mod layout_text;
pub mod machine;
mod mapping;
mod nearest;
mod order;
mod runs;
mod shard;

pub use axis::{Axis, NUM_AXES};
pub use coordinates::Coordinates;
pub use degrees::Degrees;
pub use demands::{Demands, Unmet};
pub use error::{Error, Result};
pub use factorisations::factorisations;
pub use grid::Grid;
pub use index_box::IndexBox;
pub use layout::Layout;
pub use mapping::{Mapping, Span};
pub use order::AxisOrder;
pub use runs::Runs;
pub use shard::{feature_range, shard_index, shard_range};
