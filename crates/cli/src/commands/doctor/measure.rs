//! What each rank of a job measures of its device, and of the links between nodes.

use crate::{commands::bench, numbers::Spread};
use bootstrap::World;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::time::Instant;
use tensor::{DType, Device, Tensor};
use train::speed::{self, Workload};

/// Bytes of a message each way.
pub(super) const MESSAGE_BYTES: usize = 4 << 20;
/// Messages that are timed.
const MESSAGES: usize = 3;

/// What one rank found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Seen {
    /// The rank.
    pub(super) rank: usize,
    /// The name of its host.
    pub(super) host: String,
    /// The host's number in the job.
    pub(super) node: usize,
    /// Tflop/s of a matmul while all ranks run it.
    pub(super) tflops: f64,
    /// GB/s of a copy within the device's memory, read and written.
    pub(super) copy_gbps: f64,
    /// GiB that are free on the device.
    pub(super) free_gib: f64,
    /// Ranks of other nodes, and the GB/s each way with each of them while all other ranks exchange too.
    pub(super) links: Vec<(usize, f64)>,
}

/// Measures this rank's device, then its links, and returns what all ranks found.
///
/// # Cost
/// Some tenths of a second for the device; for links a round for each other node, of four messages.
/// # Errors
/// Those of the device and of the ranks' exchange.
pub(super) fn all(world: &World, device: &Device) -> train::Result<Vec<Seen>> {
    world.beat("doctor: device");
    let speed = speed::measure(world, device, &Workload::thorough(device.id().vendor))?;
    let place = world.place();
    let own = Seen {
        rank: place.rank,
        host: speed::host_name(),
        node: place.node,
        tflops: speed.tflops,
        copy_gbps: speed.copy_gbps,
        free_gib: device.hal().memory()?.free as f64 / f64::from(1 << 30),
        links: links(world, device)?,
    };
    told(world, &own)
}

// What all ranks tell each other, in the order of ranks.
fn told<T: Serialize + DeserializeOwned>(world: &World, own: &T) -> train::Result<Vec<T>> {
    let words = serde_json::to_vec(own).unwrap_or_default();
    let told = world.everyone().all_gather(&words)?;
    let read = told.iter().map(|words| serde_json::from_slice(words));
    Ok(read.collect::<Result<_, _>>().map_err(|error| {
        hal::Error::invalid(
            "doctor",
            format!("a report that is none: {error}"),
            "that of a rank of this build",
        )
    })?)
}

// Times messages with the rank of the same number on every other node, in rounds in which all nodes are busy.
fn links(world: &World, device: &Device) -> train::Result<Vec<(usize, f64)>> {
    if world.num_nodes() < 2 {
        return Ok(Vec::new());
    }
    let everyone = world.everyone();
    let place = world.place();
    let places = told(world, &(place.node, place.local_rank))?;
    let group = bench::everyone(world, device)?;
    let (mut found, stream) = (Vec::new(), device.compute());
    let zeros = || Tensor::zeros(device, DType::F32, &[MESSAGE_BYTES / 4]);
    let (sent, received) = (zeros()?, zeros()?);
    for round in 0..rounds(place.num_nodes) {
        world.beat("doctor: links");
        let other = partner(place.node, round, place.num_nodes)
            .and_then(|node| places.iter().position(|at| *at == (node, place.local_rank)));
        everyone.barrier()?;
        let Some(other) = other else { continue };
        let exchange = || -> train::Result<f64> {
            let begun = Instant::now();
            group.send_recv(&stream, (&sent, other), (&received, other))?;
            stream.synchronize()?;
            Ok(begun.elapsed().as_secs_f64())
        };
        // The first message of a pair opens its connection.
        exchange()?;
        let seconds = (0..MESSAGES)
            .map(|_| exchange())
            .collect::<train::Result<Vec<_>>>()?;
        found.push((
            other,
            MESSAGE_BYTES as f64 / Spread::of(&seconds).median / 1e9,
        ));
    }
    everyone.barrier()?;
    Ok(found)
}

/// Rounds in which every node meets every other.
fn rounds(nodes: usize) -> usize {
    match nodes.is_multiple_of(2) {
        true => nodes - 1,
        false => nodes,
    }
}

/// The node that a node meets in a round, as players of a tournament do: the last one stays, and the others move around the table. With
/// an odd number one of them rests.
fn partner(node: usize, round: usize, nodes: usize) -> Option<usize> {
    let around = rounds(nodes);
    // The node that stays, which an odd number lacks, meets the one whose double is the round.
    let meets_last = (0..around).find(|other| 2 * other % around == round % around)?;
    let other = match node {
        _ if node == around => meets_last,
        _ if node == meets_last => around,
        _ => (round + around - node) % around,
    };
    (other < nodes).then_some(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_meets_every_other_once() {
        for nodes in 2..12 {
            let mut met = vec![vec![0; nodes]; nodes];
            for round in 0..rounds(nodes) {
                for (node, met) in met.iter_mut().enumerate() {
                    let Some(other) = partner(node, round, nodes) else {
                        assert!(!nodes.is_multiple_of(2), "{nodes} nodes: {node} rests");
                        continue;
                    };
                    let back = partner(other, round, nodes);
                    assert_eq!(back, Some(node), "{nodes} nodes, round {round}");
                    met[other] += 1;
                }
            }
            for (node, met) in met.iter().enumerate() {
                let expected = (0..nodes).map(|other| usize::from(other != node));
                assert!(
                    met.iter().copied().eq(expected),
                    "{nodes} nodes: {node} met {met:?}"
                );
            }
        }
    }
}
