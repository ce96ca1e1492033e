//! Steps on many grids, which end with the state of one rank.

use fascicle_parallel::data::Sharding;
use std::ops::Range;

/// Runs steps 0 to 2 on grids that cut parameters and shards in every way: `run(grid, sharding, from, steps)` returns the state
/// that they leave.
pub fn end_alike<S: PartialEq>(
    run: impl Fn(&'static str, Sharding, Option<S>, Range<u64>) -> S,
    expected: &S,
) {
    for grid in [
        "x=2",
        "x=3",
        "y=2",
        "x=2,y=2",
        "z=2",
        "x=2,z=2",
        "x=2,y=3,z=2",
        "data=2",
        "data=3",
        "x=3,data=2",
    ] {
        for sharding in Sharding::ALL {
            assert!(
                run(grid, sharding, None, 0..3) == *expected,
                "{grid}, sharding {sharding}"
            );
        }
    }
}

/// Runs the first two of them on one grid, and the last from their state on another.
pub fn go_on_alike<S: PartialEq>(
    run: impl Fn(&'static str, Sharding, Option<S>, Range<u64>) -> S,
    expected: &S,
) {
    for (first, second) in [
        ("x=3,data=2", "y=2,z=2"),
        ("z=2", "x=2,data=2"),
        ("x=2,y=2", "data=3"),
    ] {
        let middle = run(first, Sharding::Gradients, None, 0..2);
        assert!(
            run(second, Sharding::Optimiser, Some(middle), 2..3) == *expected,
            "{first}, {second}"
        );
    }
}
