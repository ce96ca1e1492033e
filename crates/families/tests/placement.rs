//! Placement of ranks: the order of axes that a model's traffic calls for, and the splits that no order avoids.

use fascicle_families::{GptConfig, families};
use grid::{Axis, AxisOrder, Grid, Mapping, machine::Machine};
use parallel::Positions;
use train::{
    Config,
    config::OrderChoice,
    placement::{best_order, stages, warning},
};

fn configured(change: impl FnOnce(&mut GptConfig)) -> Config {
    let mut config = Config::parse("", &families()).unwrap();
    edit(&mut config, change);
    config
}

fn edit(config: &mut Config, change: impl FnOnce(&mut GptConfig)) {
    config.model.edit(change).unwrap();
}

fn config(degrees: &str) -> Config {
    let mut config = configured(|model| model.vocabulary = 256);
    config.parallel.grid = degrees.parse().unwrap();
    config
}

fn first(config: &Config, nodes: &[usize]) -> Axis {
    let order = best_order(config, nodes, None).unwrap();
    let used = |axis: &&Axis| config.parallel.grid.get(**axis) > 1;
    *order.axes().iter().find(used).unwrap()
}

#[test]
fn what_talks_most_lies_innermost() {
    let halves = [0, 0, 1, 1];
    // Gradients of a replica once per step, against two all-reduces of activations per layer and micro-batch.
    assert_eq!(first(&config("x=2,data=2"), &halves), Axis::X);
    assert_eq!(first(&config("y=2,pipeline=2"), &halves), Axis::Y);
    // With very few tokens, gathering the weights causes more traffic.
    let mut few = config("x=2,z=2");
    (few.training.batch, few.training.micro_batches) = (2, 1);
    edit(&mut few, |model| (model.context, model.hidden) = (4, 1024));
    few.parallel.overlap.0 = parallel::Overlap::NONE;
    assert_eq!(first(&few, &halves), Axis::Z);
    assert_eq!(first(&config("x=2,z=2"), &halves), Axis::X);
}

#[test]
fn one_node_keeps_the_default_order() {
    let mut few = config("x=2,z=2,data=2");
    edit(&mut few, |model| model.hidden = 1024);
    assert_eq!(
        best_order(&few, &[0; 8], None).unwrap(),
        AxisOrder::default()
    );
}

#[test]
fn the_machine_that_is_named_decides() {
    // A network faster than the links inside a node reverses the order.
    let mut machine = Machine::find("laptop").unwrap();
    machine.links.injection_gbps.value = 1e4;
    machine.links.peer_gbps.value = 0.01;
    machine.links.network_us.value = machine.links.in_node_us.value;
    let order = best_order(&config("x=2,data=2"), &[0, 0, 1, 1], Some(&machine)).unwrap();
    assert!(
        order.position(Axis::Data) < order.position(Axis::X),
        "{order}"
    );
}

fn sentence(degrees: &str, nodes: &[usize]) -> Option<String> {
    let mut config = configured(|model| model.vocabulary = 256);
    config.parallel.grid = degrees.parse().unwrap();
    of_order(&config, AxisOrder::default(), nodes)
}

fn of_order(config: &Config, order: AxisOrder, nodes: &[usize]) -> Option<String> {
    let grid = Grid::new(config.parallel.grid, order).unwrap();
    let mapping = match config.parallel.positions {
        Positions::ByNode => Mapping::by_node(&grid, nodes.to_vec()),
        Positions::ByRank => Mapping::by_rank(nodes.to_vec()),
    };
    warning(config, &grid, &mapping).unwrap()
}

#[test]
fn only_a_split_of_the_chattiest_axis_is_told() {
    let even = [0, 0, 0, 0, 1, 1, 1, 1];
    assert_eq!(sentence("x=4,data=2", &even), None);
    assert_eq!(sentence("x=2,z=2,pipeline=2", &even), None);
    let wide = sentence("x=8", &even).unwrap();
    assert!(
        wide.contains("1 of 1 groups of axis x (8 ranks, "),
        "{wide}"
    );
    assert!(
        wide.ends_with("span up to 2 nodes of 4 ranks; x=4 or less would fit a node"),
        "{wide}"
    );
    let odd = sentence("x=2,data=4", &[0, 0, 0, 1, 1, 1, 1, 1]).unwrap();
    assert!(
        odd.contains("1 of 4 groups of axis x") && odd.contains("nodes of 3 to 5 ranks"),
        "{odd}"
    );
}

#[test]
fn a_split_that_the_nodes_do_not_ask_for_names_what_does() {
    let mut config = configured(|model| model.vocabulary = 256);
    config.parallel.grid = "x=2,data=2".parse().unwrap();
    let order: AxisOrder = "data,x,y,z,context,pipeline".parse().unwrap();
    // The library chose it: another axis costs more across nodes.
    assert_eq!(of_order(&config, order, &[0, 0, 1, 1]), None);
    config.parallel.order = OrderChoice::Fixed(order);
    let told = of_order(&config, order, &[0, 0, 1, 1]).unwrap();
    assert!(
        told.ends_with("an order that begins with x would hold each group"),
        "{told}"
    );
    (config.parallel.order, config.parallel.positions) = (OrderChoice::Auto, Positions::ByRank);
    let told = of_order(&config, AxisOrder::default(), &[0, 1, 0, 1]).unwrap();
    assert!(
        told.ends_with("parallel.positions = \"by-node\" would hold each group"),
        "{told}"
    );
}

#[test]
fn stages_hold_what_their_segments_use_and_a_shared_table_counts_on_the_first() {
    for (tied_head, last) in [(true, 0), (false, 1)] {
        let config = configured(|model| {
            (model.vocabulary, model.layers, model.tied_head) = (64, 4, tied_head);
        });
        let stages = stages(&config, &"pipeline=2".parse().unwrap()).unwrap();
        let of = |part: &str| {
            let found: Vec<usize> = stages
                .iter()
                .filter(|(name, _)| name.contains(part))
                .map(|(_, stage)| *stage)
                .collect();
            assert!(!found.is_empty(), "{part} in {stages:?}");
            found
        };
        assert!(of("embedding").iter().all(|stage| *stage == 0));
        assert!(of("blocks.0").iter().all(|stage| *stage == 0));
        assert!(of("blocks.3").iter().all(|stage| *stage == 1));
        if !tied_head {
            assert!(of("head").contains(&last), "{stages:?}");
        }
    }
    let config = configured(|model| (model.vocabulary, model.layers) = (64, 1));
    let error = stages(&config, &"pipeline=64".parse().unwrap()).unwrap_err();
    assert!(error.to_string().contains("64 stages"), "{error}");
}

// Ten segments: an embedding, four blocks of two halves, and a head.
fn three_stages(stages: Option<Vec<usize>>) -> Config {
    let mut config = configured(|model| (model.vocabulary, model.layers) = (64, 4));
    config.parallel.grid = "pipeline=3".parse().unwrap();
    config.parallel.stages = stages;
    (config.training.batch, config.training.micro_batches) = (12, 4);
    config
}

#[test]
fn a_stated_cut_is_taken_or_refused_in_one_sentence() {
    assert_eq!(
        three_stages(Some(vec![2, 7, 1])).depths().unwrap(),
        Some(vec![2, 7, 1])
    );
    let error = three_stages(Some(vec![5, 6]))
        .check()
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "parallel.stages: found [5, 6], needs 3 numbers of at least 1 whose sum is 10, the segments of each part"
    );
}

#[test]
fn a_limit_of_memory_takes_segments_from_the_first_stage() {
    let depths = |limit| {
        let mut config = three_stages(None);
        config.device.memory_limit = limit;
        config.depths().unwrap().unwrap()
    };
    let free = depths(None);
    assert_eq!(free.iter().sum::<usize>(), 10);
    // The limits from ample to none at all: the first stage, which keeps three micro-batches, shrinks before the cut of least
    // time is taken again, because no cut fits.
    let mut limits = (0..24).map(|halvings| (1_usize << 26) >> halvings);
    assert_eq!(depths(Some(1 << 26)), free);
    assert!(
        limits.any(|limit| depths(Some(limit))[0] < free[0]),
        "{free:?}"
    );
    assert_eq!(depths(Some(1)), free);
}
