//! Jobs on several nodes: the placement of ranks, and collectives that run inside each node, across, and back.

use grid::{Axis, AxisOrder, Degrees, Grid};
use hal::Counts;
use parallel::{
    Context, Hierarchical, Operation, Positions, Purpose, Settings, counters::Subject,
    data::Sharding,
};
use tensor::{DType, ReduceOp, Tensor};
use testkit::{config, difference, ranks_on, train, train_on};
use train::{Config, config::Precision};

const TWO_OF_FOUR: [usize; 8] = [0, 0, 0, 0, 1, 1, 1, 1];
const FOUR_OF_TWO: [usize; 8] = [0, 0, 1, 1, 2, 2, 3, 3];
const ROUND_ROBIN: [usize; 8] = [0, 1, 0, 1, 0, 1, 0, 1];
const TWO_AND_SIX: [usize; 8] = [1, 0, 0, 1, 0, 0, 0, 0];

type Results = [Vec<f64>; 3];

// The results of the three collectives along `axis` on every rank, and the number of them that ran in two levels.
fn collectives(
    degrees: &'static str,
    axis: Axis,
    nodes: &[usize],
    form: Hierarchical,
    dtype: DType,
    counts: &Counts,
) -> Vec<(Results, usize)> {
    let counts = counts.clone();
    ranks_on(nodes, move |world, device| {
        let grid = Grid::new(degrees.parse()?, AxisOrder::default())?;
        let settings = Settings {
            hierarchical: form,
            checked: true,
            ..Settings::default()
        };
        let context = Context::new(world, grid, device.clone(), settings)?;
        let group = context
            .group(axis, Purpose::Main)?
            .expect("an axis with ranks");
        let (me, size, stream) = (group.rank(), group.size(), device.compute());
        // Quarters, whose sums of eight are exact even in 16 bits.
        let number = |place: usize| (place * 7 % 13) as f64 * 0.25 + me as f64;
        let numbers = |range: std::ops::Range<usize>| range.map(number).collect::<Vec<_>>();
        let (total, own, before) = (counts.total(size), counts.of(me), counts.before(me));
        let tensor = |numbers: &[f64]| Tensor::from_f64(&device, dtype, &[numbers.len()], numbers);
        let subject = Subject::Layout;
        let sum = tensor(&numbers(0..total))?;
        group.all_reduce(&context, subject, &stream, &sum, ReduceOp::Sum)?;
        let (part, whole) = (
            tensor(&numbers(before..before + own))?,
            tensor(&vec![0.0; total])?,
        );
        group.all_gather(&context, subject, &stream, &part, &whole, &counts)?;
        let (addend, share) = (tensor(&numbers(0..total))?, tensor(&vec![0.0; own])?);
        group.reduce_scatter(&context, subject, &stream, &addend, &share, &counts)?;
        let counted = context
            .counters()
            .iter()
            .map(|(.., count)| count.bytes)
            .collect::<Vec<_>>();
        assert_eq!(counted, [(total * dtype.bytes()) as u64; 3]);
        let all = [
            Operation::AllReduce,
            Operation::AllGather,
            Operation::ReduceScatter,
        ];
        let in_levels = all
            .iter()
            .map(|operation| context.report().in_levels(axis, *operation))
            .sum();
        Ok(([sum.to_f64()?, whole.to_f64()?, share.to_f64()?], in_levels))
    })
}

#[test]
fn both_forms_of_a_collective_give_the_same() {
    let cases: [(&str, Axis, &[usize]); 5] = [
        ("x=8", Axis::X, &TWO_OF_FOUR),
        ("x=8", Axis::X, &FOUR_OF_TWO),
        ("x=8", Axis::X, &ROUND_ROBIN),
        ("x=2,data=4", Axis::Data, &TWO_OF_FOUR),
        ("x=2,z=4", Axis::Z, &ROUND_ROBIN),
    ];
    for (degrees, axis, nodes) in cases {
        let size = degrees.parse::<Degrees>().unwrap().get(axis);
        let uneven = Counts::Uneven(
            (0..size)
                .map(|rank| [5, 0, 3, 8][rank % 4] + rank)
                .collect(),
        );
        for (dtype, counts) in [
            (DType::F32, Counts::Even(6)),
            (DType::F64, uneven.clone()),
            (DType::Bf16, Counts::Even(16)),
            (DType::F16, uneven),
            (DType::F32, Counts::Even(1)),
        ] {
            let run = |form| collectives(degrees, axis, nodes, form, dtype, &counts);
            for (rank, (flat, levels)) in run(Hierarchical::Off)
                .into_iter()
                .zip(run(Hierarchical::On))
                .enumerate()
            {
                let case =
                    format!("{degrees} {axis} on {nodes:?}, {dtype} {counts:?}, rank {rank}");
                assert_eq!((flat.1, levels.1), (0, 3), "{case}");
                assert_eq!(flat.0, levels.0, "{case}");
            }
        }
    }
}

#[test]
fn groups_that_no_two_levels_fit_stay_flat() {
    // Inside a node, one rank per node, and nodes of different sizes.
    let cases: [(&str, Axis, &[usize]); 3] = [
        ("x=4,data=2", Axis::X, &TWO_OF_FOUR),
        ("x=4,data=2", Axis::Data, &TWO_OF_FOUR),
        ("x=8", Axis::X, &TWO_AND_SIX),
    ];
    for (degrees, axis, nodes) in cases {
        let all = collectives(
            degrees,
            axis,
            nodes,
            Hierarchical::On,
            DType::F32,
            &Counts::Even(6),
        );
        assert!(
            all.iter().all(|(_, in_levels)| *in_levels == 0),
            "{degrees} {axis} on {nodes:?}"
        );
    }
}

fn configured(degrees: &str, form: Hierarchical) -> Config {
    let mut config = config(Precision::F64);
    config.training.steps = 4;
    config.parallel.grid = degrees.parse().unwrap();
    config.parallel.hierarchical = form;
    config
}

#[test]
fn training_on_nodes_is_the_serial_program() {
    let serial = train(&configured("x=1", Hierarchical::Off));
    for nodes in [TWO_OF_FOUR, FOUR_OF_TWO, ROUND_ROBIN, TWO_AND_SIX] {
        for degrees in [
            "x=8",
            "x=2,z=4",
            "z=4,data=2",
            "x=2,z=2,pipeline=2",
            "data=8",
            "y=2,data=2,pipeline=2",
        ] {
            let found = train_on(&configured(degrees, Hierarchical::On), &nodes);
            let differs = difference(&found, &serial);
            assert!(
                differs.largest() < 1e-9,
                "{degrees} on {nodes:?}: {differs:?}"
            );
        }
    }
    let sharded = |form| {
        let mut config = configured("x=2,data=4", form);
        config.parallel.sharding = Sharding::Optimiser;
        train_on(&config, &TWO_OF_FOUR)
    };
    let (flat, levels) = (sharded(Hierarchical::Off), sharded(Hierarchical::On));
    assert!(difference(&levels, &serial).loss < 1e-9);
    assert_eq!(
        (flat.in_levels, flat.counters),
        (0, levels.counters),
        "the same bytes count in both forms"
    );
    assert!(levels.in_levels > 0);
}

#[test]
fn a_machine_decides_which_form_runs() {
    let on = |machine: &str| {
        let mut config = configured("x=8", Hierarchical::Auto);
        config.parallel.machine = Some(machine.into());
        train_on(&config, &TWO_OF_FOUR).in_levels
    };
    let mut slow_to_start = grid::machine::Machine::find("laptop").unwrap();
    slow_to_start.links.base_us.value = 1e5;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("slow_to_start.toml");
    std::fs::write(&path, slow_to_start.to_toml()).unwrap();
    // Three start-up costs instead of one exceed the gain from the shorter path.
    assert_eq!(on(&path.to_string_lossy()), 0);
    assert!(on("laptop") > 0, "a slow network is crossed by fewer bytes");
}

#[test]
fn ranks_sit_so_that_neighbours_share_a_node() {
    let seats = |positions: Positions| {
        ranks_on(&ROUND_ROBIN, move |world, device| {
            let mut config = configured("x=4,data=2", Hierarchical::Auto);
            config.parallel.positions = positions;
            let grid = config.grid_on(&world)?;
            let context = Context::new(world, grid, device, config.settings())?;
            let members = context.members(&[Axis::X]);
            let nodes: Vec<_> = members
                .iter()
                .map(|rank| context.mapping().node_of(*rank))
                .collect();
            Ok((
                nodes,
                train::placement::warning(&config, &grid, context.mapping())?,
            ))
        })
    };
    for (nodes, warning) in seats(Positions::ByNode) {
        assert!(
            nodes.iter().all(|node| *node == nodes[0]) && warning.is_none(),
            "{nodes:?} {warning:?}"
        );
    }
    for (nodes, warning) in seats(Positions::ByRank) {
        assert_eq!(nodes, [0, 1, 0, 1]);
        assert!(
            warning
                .unwrap()
                .contains("2 of 2 groups of axis x (4 ranks")
        );
    }
}
