//! Times of collectives and messages for groups of every kind, all sibling groups at once.

use super::MOST_RANKS;
use crate::{failure::Outcome, ranks::Team};
use bootstrap::World;
use grid::machine::{Machine, Operation, Quantity, links::Timed};
use hal::{Counts, Driver, GroupId, Join};
use std::time::Instant;
use tensor::{Communicator, DType, Device, ReduceOp, Tensor};

const OPERATIONS: [Operation; 3] = [Operation::AllReduce, Operation::AllGather, Operation::ReduceScatter];

/// Bytes of the whole buffers.
const BYTES: [usize; 5] = [64, 4 << 10, 64 << 10, 512 << 10, 4 << 20];

/// Calls in a row, timed together: in a step, too, one follows another.
const CALLS: [usize; 5] = [200, 100, 40, 12, 5];

/// Fills in the timed collectives, and what stands for those that were not timed.
pub(super) fn measure(driver: Driver, machine: &mut Machine) -> Outcome {
    let mut measured = Vec::new();
    for ranks in [2, 4, 8].into_iter().filter(|ranks| *ranks <= MOST_RANKS) {
        let all = Team::new(ranks, 1).run(driver, of_world)?;
        measured.extend(all.into_iter().next().unwrap_or_default());
    }
    let pair = measured.iter().find(|timed: &&Timed| timed.operation == Operation::Message);
    if let Some([.., [_, before_us], [bytes, us]]) = pair.map(|timed| timed.points.as_slice()) {
        let moved = bytes - BYTES[BYTES.len() - 2] as f64;
        let gbps = moved / (us - before_us).max(1e-3) / 1e3;
        machine.links.peer_gbps = Quantity::measured(gbps, "fascicle bench --save, messages between 2 ranks");
    }
    let smallest =
        measured.iter().filter_map(|timed| timed.points.first()).map(|point| point[1]).reduce(f64::min);
    let smallest =
        Quantity::measured(smallest.unwrap_or(1.0), "fascicle bench --save, the fastest small collective");
    (machine.links.base_us, machine.links.in_node_us) = (smallest.clone(), smallest);
    machine.links.measured = measured;
    Ok(())
}

// Every regular group of a world of this size.
fn of_world(world: &World, device: &Device) -> train::Result<Vec<Timed>> {
    let ranks = world.size();
    let mut measured = Vec::new();
    for size in [2, 4, 8].into_iter().filter(|size| *size <= ranks) {
        for inner in [1, 2, 4].into_iter().filter(|inner| inner * size <= ranks) {
            let group = join(world, device, inner, size)?;
            for operation in OPERATIONS {
                let points =
                    points(world, |bytes, calls| collective(device, &group, operation, bytes, calls))?;
                measured.push(Timed { ranks, inner, size, operation, points });
            }
            if size == 2 {
                let points = points(world, |bytes, calls| message(device, &group, bytes, calls))?;
                measured.push(Timed { ranks, inner, size, operation: Operation::Message, points });
            }
        }
    }
    Ok(measured)
}

fn points(world: &World, run: impl Fn(usize, usize) -> train::Result<()>) -> train::Result<Vec<[f64; 2]>> {
    let mut points = Vec::with_capacity(BYTES.len());
    for (bytes, calls) in BYTES.into_iter().zip(CALLS) {
        run(bytes, 2)?;
        let mut rounds = Vec::new();
        for _ in 0..3 {
            world.everyone().barrier()?;
            let begun = Instant::now();
            run(bytes, calls)?;
            rounds.push(begun.elapsed().as_secs_f64() * 1e6 / calls as f64);
        }
        rounds.sort_by(f64::total_cmp);
        points.push([bytes as f64, rounds[1]]);
    }
    Ok(points)
}

fn collective(
    device: &Device,
    group: &Communicator,
    operation: Operation,
    bytes: usize,
    calls: usize,
) -> train::Result<()> {
    let count = bytes / 4;
    let whole = Tensor::zeros(device, DType::F32, &[count])?;
    let part = Tensor::zeros(device, DType::F32, &[count / group.size()])?;
    let (stream, counts) = (device.compute(), Counts::Even(count / group.size()));
    for _ in 0..calls {
        match operation {
            Operation::AllGather => group.all_gather(&stream, &part, &whole, &counts)?,
            Operation::ReduceScatter => {
                group.reduce_scatter(&stream, &whole, &part, &counts, ReduceOp::Sum)?
            }
            _ => group.all_reduce(&stream, &whole, ReduceOp::Sum)?,
        }
    }
    Ok(stream.synchronize()?)
}

// There and back; a message is half of that.
fn message(device: &Device, group: &Communicator, bytes: usize, calls: usize) -> train::Result<()> {
    let buffer = Tensor::zeros(device, DType::F32, &[bytes / 4])?;
    let stream = device.compute();
    let other = 1 - group.rank();
    for call in 0..calls {
        match (call + group.rank()) % 2 {
            0 => group.send(&stream, &buffer, other)?,
            _ => group.recv(&stream, &buffer, other)?,
        }
    }
    Ok(stream.synchronize()?)
}

// This rank's group of `size` ranks that are `inner` apart.
fn join(world: &World, device: &Device, inner: usize, size: usize) -> train::Result<Communicator> {
    let rank = world.rank();
    let first = rank / (inner * size) * (inner * size) + rank % inner;
    let members: Vec<_> = (0..size).map(|at| first + at * inner).collect();
    let own = (rank - first) / inner;
    let label = format!("{size} ranks {inner} apart");
    let exchange = world.exchange(&label, &members)?;
    let id = if own == 0 { device.hal().create_group()?.0 } else { Vec::new() };
    let join = Join {
        id: GroupId(exchange.broadcast(0, &id)?),
        label,
        rank: own,
        members,
        timeout: world.timeout(),
        abort: world.abort().clone(),
    };
    Ok(Communicator::join(device, join, None)?)
}
