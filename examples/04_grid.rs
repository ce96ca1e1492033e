//! The grid: which ranks lie on which axis, and the error for a grid that does not fit.
//!
//! `cargo run --release --example 04_grid`

use fascicle::prelude::*;

fn main() -> fascicle::Result<()> {
    let degrees: Degrees = "x=2,z=2,pipeline=2".parse()?;
    let grid = Grid::for_ranks(degrees, AxisOrder::default(), 8)?;
    for axis in Axis::ALL {
        println!(
            "{:<9}{} ranks: {}",
            axis.name(),
            grid.degree(axis),
            axis.role()
        );
    }
    for rank in 0..grid.world_size() {
        println!(
            "rank {rank} at {}, with {:?} along x",
            grid.coordinates(rank),
            grid.group(rank, Axis::X)
        );
    }
    assert_eq!(grid.group(0, Axis::Z), [0, 2]);
    assert_eq!(grid.group(5, Axis::Pipeline), [1, 5]);
    println!(
        "and a grid that does not fit: {}",
        Grid::for_ranks(degrees, AxisOrder::default(), 6).unwrap_err()
    );
    Ok(())
}
