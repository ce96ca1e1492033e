//! Ranks of one process that appear to be on several nodes.

use bootstrap::{
    World, local,
    progress::Progress,
    world::{RankLocation, Rendezvous, WorldParts},
};
use hal::{Exchange, Result};
use std::{sync::Arc, time::Duration};

/// As [`ranks`](fn@crate::ranks), where `nodes` holds the node of each rank in any arrangement. Ranks are
/// always threads of this process.
///
/// # Panics
/// With the report of the failure if a rank fails: this is for tests.
pub fn ranks_on<T: Send + 'static>(
    nodes: &[usize],
    body: impl Fn(World, tensor::Device) -> train::Result<T> + Send + Sync + 'static,
) -> Vec<T> {
    let nodes = nodes.to_vec();
    let timeout = Duration::from_secs(30);
    let options = local::Options::new(nodes.len())
        .with_timeout(timeout)
        .with_grace(timeout);
    let run = local::run(options, move |world| {
        let options = cpu::Options {
            ordinal: world.rank(),
            ..cpu::Options::default()
        };
        body(
            moved(&world, &nodes),
            tensor::Device::new(cpu::open(options)?)?,
        )
    });
    run.unwrap_or_else(|failure| panic!("{}", failure.report()))
}

// The same world, on other nodes.
fn moved(world: &World, nodes: &[usize]) -> World {
    let rank = world.rank();
    let on_node = |ranks: &[usize]| ranks.iter().filter(|node| **node == nodes[rank]).count();
    World::new(WorldParts {
        place: RankLocation {
            rank,
            size: world.size(),
            node: nodes[rank],
            num_nodes: nodes.iter().max().map_or(1, |last| last + 1),
            local_rank: on_node(&nodes[..rank]),
            local_size: on_node(nodes),
        },
        launcher: world.launcher(),
        timeout: world.timeout(),
        abort: world.abort().clone(),
        progress: Arc::new(Progress::new(vec![rank])),
        rendezvous: Box::new(Through(world.clone())),
        everyone: world.everyone(),
    })
}

struct Through(World);

impl Rendezvous for Through {
    fn exchange(&self, label: &str, members: &[usize]) -> Result<Arc<dyn Exchange>> {
        self.0.exchange(label, members)
    }
}
