//! Properties of every grid, order, layout and box, tested on small random ones.

use std::collections::BTreeSet;

use fascicle_grid::{Axis, AxisOrder, Degrees, Grid, IndexBox, Layout};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

fn degrees() -> impl Strategy<Value = Degrees> {
    proptest::array::uniform6(1_usize..4).prop_map(|degrees| {
        let pairs = Axis::ALL.into_iter().zip(degrees);
        pairs.fold(Degrees::default(), |all, (axis, degree)| {
            all.with(axis, degree)
        })
    })
}

fn grids() -> impl Strategy<Value = Grid> {
    (degrees(), select(AxisOrder::all()))
        .prop_map(|(degrees, order)| Grid::new(degrees, order).unwrap())
}

fn some_axes() -> impl Strategy<Value = Vec<Axis>> {
    subsequence(Axis::ALL.to_vec(), 0..=Axis::ALL.len()).prop_shuffle()
}

/// A layout of one to three dims, with each of some axes assigned to a dim.
fn layouts() -> impl Strategy<Value = Layout> {
    (1_usize..4, some_axes(), vec(0_usize..3, Axis::ALL.len())).prop_map(
        |(num_dims, axes, places)| {
            let mut dims = vec![vec![]; num_dims];
            for (axis, place) in axes.into_iter().zip(places) {
                dims[place % num_dims].push(axis);
            }
            Layout::cut(dims).unwrap()
        },
    )
}

fn layouts_and_shapes() -> impl Strategy<Value = (Layout, Vec<usize>)> {
    layouts().prop_flat_map(|layout| {
        let shape = vec(0_usize..12, layout.num_dims());
        (Just(layout), shape)
    })
}

/// The box between two random corners of a random shape, with that shape.
fn boxes() -> impl Strategy<Value = (IndexBox, Vec<usize>)> {
    vec((0_usize..6, 0_usize..7, 0_usize..7), 0..4).prop_map(|dims| {
        let shape: Vec<usize> = dims.iter().map(|dim| dim.0).collect();
        let corners = dims
            .iter()
            .map(|(len, a, b)| (a.min(b).min(len), a.max(b).min(len)));
        let (start, shape_of_box) = corners.map(|(from, to)| (*from, to - from)).unzip();
        (
            IndexBox {
                start,
                shape: shape_of_box,
            },
            shape,
        )
    })
}

/// Row-major offsets, in `shape`, of the elements of a box, found one by one.
fn offsets(piece: &IndexBox, shape: &[usize]) -> Vec<usize> {
    let whole: usize = shape.iter().product();
    (0..whole)
        .filter(|offset| piece.contains_index(&index_of(*offset, shape)))
        .collect()
}

fn index_of(mut offset: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (at, len) in index.iter_mut().zip(shape).rev() {
        *at = offset % len;
        offset /= len;
    }
    index
}

proptest! {
    #[test]
    fn coordinates_round_trip(grid in grids()) {
        for rank in 0..grid.world_size() {
            let coordinates = grid.coordinates(rank);
            prop_assert_eq!(grid.rank(&coordinates), rank);
            prop_assert!(Axis::ALL.iter().all(|axis| coordinates[*axis] < grid.degree(*axis)));
        }
    }

    #[test]
    fn neighbours_are_an_inner_product_apart(grid in grids()) {
        for axis in Axis::ALL {
            let group = grid.group(grid.world_size() - 1, axis);
            prop_assert!(group.windows(2).all(|pair| pair[1] - pair[0] == grid.inner_product(axis)));
            prop_assert_eq!(group.len(), grid.degree(axis));
        }
    }

    #[test]
    fn groups_partition_the_world(grid in grids(), axes in some_axes()) {
        let groups = grid.groups_over(&axes);
        let ranks: BTreeSet<usize> = groups.iter().flatten().copied().collect();
        prop_assert_eq!(ranks.len(), grid.world_size());
        prop_assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), grid.world_size());
        prop_assert!(groups.is_sorted_by_key(|group| group[0]));
    }

    #[test]
    fn members_of_a_group_agree_on_it(grid in grids(), axes in some_axes()) {
        for group in grid.groups_over(&axes) {
            for (place, rank) in group.iter().enumerate() {
                prop_assert_eq!(&grid.group_over(*rank, &axes), &group);
                let coordinates = grid.coordinates(*rank);
                let fastest_last = axes.iter().rev();
                let expected = fastest_last.fold(0, |at, axis| at * grid.degree(*axis) + coordinates[*axis]);
                prop_assert_eq!(place, expected);
            }
        }
    }

    #[test]
    fn a_group_over_nothing_else_shares_the_other_coordinates(grid in grids(), axes in some_axes()) {
        let mine = grid.coordinates(0);
        let others = || Axis::ALL.into_iter().filter(|axis| !axes.contains(axis));
        for rank in grid.group_over(0, &axes) {
            prop_assert!(others().all(|axis| grid.coordinates(rank)[axis] == mine[axis]));
        }
    }

    #[test]
    fn one_replica_tiles_the_tensor(grid in grids(), (layout, shape) in layouts_and_shapes()) {
        let copied = layout.replicated_over(&grid);
        let mut held = vec![0; shape.iter().product()];
        for rank in 0..grid.world_size() {
            let coordinates = grid.coordinates(rank);
            let piece = layout.local_box(&shape, &grid, &coordinates);
            prop_assert!(IndexBox::full(&shape).contains(&piece));
            if copied.iter().all(|axis| coordinates[*axis] == 0) {
                piece.contiguous_runs(&shape).for_each(|(at, len)| held[at..at + len].iter_mut().for_each(|n| *n += 1));
            }
        }
        prop_assert!(held.iter().all(|count| *count == 1), "{:?}", held);
    }

    #[test]
    fn replicas_hold_the_same_and_even_layouts_are_even(grid in grids(), (layout, shape) in layouts_and_shapes()) {
        let copied = layout.replicated_over(&grid);
        let mut shapes = BTreeSet::new();
        for rank in 0..grid.world_size() {
            let piece = layout.local_box(&shape, &grid, &grid.coordinates(rank));
            shapes.insert(piece.shape.clone());
            let first = copied.iter().fold(grid.coordinates(rank), |at, axis| at.with(*axis, 0));
            prop_assert_eq!(layout.local_box(&shape, &grid, &first), piece);
        }
        prop_assert_eq!(layout.is_even(&shape, &grid), shapes.len() == 1);
    }

    #[test]
    fn runs_cover_a_box_in_order_and_are_as_long_as_can_be((piece, shape) in boxes()) {
        let runs: Vec<_> = piece.contiguous_runs(&shape).collect();
        let covered: Vec<usize> = runs.iter().flat_map(|(at, len)| *at..at + len).collect();
        prop_assert_eq!(covered, offsets(&piece, &shape));
        prop_assert!(runs.windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0));
        prop_assert_eq!(piece.contiguous_runs(&shape).len(), runs.len());
    }

    #[test]
    fn an_intersection_holds_what_both_hold((a, shape) in boxes(), seed in vec((0_usize..7, 0_usize..7), 4)) {
        let corners = shape.iter().zip(seed).map(|(len, (p, q))| (p.min(q).min(*len), p.max(q).min(*len)));
        let (start, size) = corners.map(|(from, to)| (from, to - from)).unzip();
        let b = IndexBox { start, shape: size };
        let both: Vec<usize> =
            offsets(&a, &shape).into_iter().filter(|at| offsets(&b, &shape).contains(at)).collect();
        prop_assert_eq!(a.intersect(&b), b.intersect(&a));
        let found = a.intersect(&b).map(|piece| offsets(&piece, &shape)).unwrap_or_default();
        prop_assert_eq!(found, both);
        if let Some(piece) = a.intersect(&b) {
            prop_assert!(a.contains(&piece) && b.contains(&piece));
            prop_assert_eq!(piece.relative_to(&a).shape, piece.shape);
        }
    }

    #[test]
    fn texts_round_trip(grid in grids(), layout in layouts()) {
        prop_assert_eq!(grid.degrees().to_string().parse(), Ok(grid.degrees()));
        prop_assert_eq!(grid.order().to_string().parse(), Ok(grid.order()));
        prop_assert_eq!(layout.to_string().parse(), Ok(layout));
    }
}
