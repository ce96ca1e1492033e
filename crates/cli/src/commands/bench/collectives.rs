//! `fascicle bench collectives`: all_reduce, all_gather and reduce_scatter between ranks.

use super::{
    file,
    links::{self, GroupShape, measure_links},
};
use crate::{
    device,
    failure::{Failure, Outcome},
    launcher,
    numbers::{MOST_THREADS, Spread, count, counted, fixed, rounded},
    output,
    ranks::Team,
};
use bootstrap::World;
use clap::Args;
use hal::{CollectiveBackend, Counts, DeviceSettings, Driver, GroupId, Join, error::Bytes};
use parallel::Operation;
use serde::Serialize;
use std::{path::PathBuf, time::Instant};
use tensor::{Communicator, DType, Device, ReduceOp, Tensor};

const OPERATIONS: [Operation; 3] = [
    Operation::AllReduce,
    Operation::AllGather,
    Operation::ReduceScatter,
];

/// 1 KiB to 64 MiB, each four times the one before.
const BYTES: [usize; 9] = [
    1 << 10,
    1 << 12,
    1 << 14,
    1 << 16,
    1 << 18,
    1 << 20,
    1 << 22,
    1 << 24,
    1 << 26,
];

/// The most bytes of a buffer.
const MOST_BYTES: usize = 1 << 40;

/// Calls of warm-up, and calls that are timed.
const WARM_UP: usize = 3;

/// Arguments of `fascicle bench collectives`.
#[derive(Args, Debug)]
pub(crate) struct Collectives {
    /// Number of ranks; by default 2, or as many as mpirun or srun started
    #[arg(long, value_name = "N", value_parser = count::<MOST_THREADS>)]
    ranks: Option<usize>,
    /// Threads per rank
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count::<MOST_THREADS>)]
    threads: usize,
    /// Sizes of the whole buffers; by default 1 KiB to 64 MiB
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = count::<MOST_BYTES>)]
    bytes: Vec<usize>,
    /// Backend that runs the collectives: library or staged
    #[arg(long, value_name = "BACKEND", default_value_t)]
    collectives: CollectiveBackend,
    /// Also measure groups of every kind, and write the times into a machine's description
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Print one line of JSON per operation and size
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug, Serialize)]
struct Line {
    operation: &'static str,
    ranks: usize,
    /// Bytes of the whole buffer, which a rank holds before a reduction or after a gather.
    bytes: usize,
    us: f64,
    min_us: f64,
    max_us: f64,
    algbw_gbs: f64,
    busbw_gbs: f64,
}

impl Collectives {
    /// Prints a line per operation and size.
    pub(crate) fn run(&self, drivers: &[Driver]) -> Outcome {
        let driver = device::preferred(drivers)?;
        let sizes = self.sizes()?;
        let settings = DeviceSettings {
            collectives: self.collectives,
            ..DeviceSettings::default()
        };
        output::note(&device::described(driver, self.threads, settings.clone())?);
        if let Some(path) = &self.save {
            launcher::once(|| file::check(path).map(|()| path.clone()))?;
        }
        let saves = self.save.is_some();
        let team = Team::new(self.ranks(), self.threads).with_device(settings);
        let lines = team.run(driver, move |world, device| {
            let group = join(world, device)?;
            let cases = OPERATIONS
                .iter()
                .flat_map(|&operation| sizes.iter().map(move |&bytes| (operation, bytes)));
            let lines: Vec<Line> = cases
                .map(|(operation, bytes)| measure(device, &group, operation, bytes))
                .collect::<train::Result<_>>()?;
            let kinds = if saves {
                GroupShape::all(world.size())
            } else {
                Vec::new()
            };
            let timed = measure_links(world, device, &kinds, links::FULL)?;
            Ok((lines, timed, world.num_nodes(), world.local_size()))
        });
        let (lines, timed, nodes, ranks_per_node) = lines?.swap_remove(0);
        if let Some(path) = &self.save {
            launcher::once(|| {
                file::save(path, nodes, ranks_per_node, timed).map(|()| path.clone())
            })?;
        }
        lines.iter().try_for_each(|line| {
            if self.json {
                output::json(line)
            } else {
                output::result(&line.text())
            }
        })
    }

    fn ranks(&self) -> usize {
        self.ranks.or_else(launcher::num_ranks).unwrap_or(2)
    }

    // The same whole number of f32 for each rank.
    fn sizes(&self) -> Outcome<Vec<usize>> {
        let ranks = self.ranks();
        if ranks < 2 {
            return Err(Failure::usage(format!(
                "--ranks: found {ranks}, needs at least 2"
            )));
        }
        let unit = 4 * ranks;
        match self
            .bytes
            .iter()
            .find(|&&bytes| bytes == 0 || bytes % unit != 0)
        {
            Some(bytes) => Err(Failure::usage(format!(
                "--bytes: found {bytes}, needs a multiple of {unit}"
            ))),
            None if self.bytes.is_empty() => {
                Ok(BYTES.map(|bytes| bytes.next_multiple_of(unit)).into())
            }
            None => Ok(self.bytes.clone()),
        }
    }
}

/// A communicator of all ranks.
///
/// # Errors
/// Those of the device and of the ranks' exchange.
pub(crate) fn join(world: &World, device: &Device) -> train::Result<Communicator> {
    let everyone = world.everyone();
    let own_id = if world.rank() == 0 {
        device.hal().create_group()?.0
    } else {
        Vec::new()
    };
    let join = Join {
        id: GroupId(everyone.broadcast(0, &own_id)?),
        label: "all ranks".into(),
        rank: world.rank(),
        members: (0..world.size()).collect(),
        timeout: world.timeout(),
        abort: world.abort().clone(),
    };
    Ok(Communicator::join(device, join, None)?)
}

fn measure(
    device: &Device,
    group: &Communicator,
    operation: Operation,
    bytes: usize,
) -> train::Result<Line> {
    let seconds = timed(device, group, operation, bytes / 4)?;
    let spread = Spread::of(&seconds[WARM_UP..]);
    let bandwidth = bytes as f64 / spread.median / 1e9;
    let us = |seconds: f64| rounded(seconds * 1e6, 2);
    Ok(Line {
        operation: operation.name(),
        ranks: group.size(),
        bytes,
        us: us(spread.median),
        min_us: us(spread.min),
        max_us: us(spread.max),
        algbw_gbs: rounded(bandwidth, 4),
        busbw_gbs: rounded(bandwidth * operation.ring_bytes(1, group.size()), 4),
    })
}

// Seconds of each call on this rank, warm-up included. A call is timed from a barrier of all ranks until its
// work has run.
fn timed(
    device: &Device,
    group: &Communicator,
    operation: Operation,
    count: usize,
) -> train::Result<Vec<f64>> {
    let whole = Tensor::full(device, DType::F32, &[count], 1.0)?;
    let part = Tensor::full(device, DType::F32, &[count / group.size()], 1.0)?;
    let (stream, counts) = (device.compute(), Counts::Even(count / group.size()));
    let mut seconds = Vec::new();
    for call in 0..WARM_UP + calls(count) {
        group.barrier(&stream)?;
        stream.synchronize()?;
        let begun = Instant::now();
        match operation {
            Operation::AllGather => group.all_gather(&stream, &part, &whole, &counts)?,
            Operation::ReduceScatter => {
                group.reduce_scatter(&stream, &whole, &part, &counts, ReduceOp::Sum)?
            }
            _ => group.all_reduce(&stream, &whole, ReduceOp::Sum)?,
        }
        stream.synchronize()?;
        seconds.push(begun.elapsed().as_secs_f64());
        if call == 0 {
            check(operation, group, &whole, &part)?;
        }
    }
    Ok(seconds)
}

// A collective that moved nothing would be fast, so the ones must have become the expected values. Later
// calls run on zeros, because sums of sums would overflow.
fn check(
    operation: Operation,
    group: &Communicator,
    whole: &Tensor,
    part: &Tensor,
) -> train::Result<()> {
    let (result, expected) = match operation {
        Operation::AllGather => (whole, 1.0),
        Operation::ReduceScatter => (part, group.size() as f32),
        _ => (whole, group.size() as f32),
    };
    let wrong = result
        .to_vec::<f32>()?
        .into_iter()
        .find(|number| *number != expected);
    whole.fill(0.0)?;
    part.fill(0.0)?;
    match wrong {
        None => Ok(()),
        Some(found) => {
            Err(
                hal::Error::invalid(operation.name(), found.to_string(), expected.to_string())
                    .into(),
            )
        }
    }
}

// Small calls scatter more and are cheap, so there are many of them.
fn calls(count: usize) -> usize {
    ((1 << 24) / count.max(1)).clamp(15, 200)
}

impl Line {
    fn text(&self) -> String {
        let Line {
            operation,
            ranks,
            us,
            min_us,
            max_us,
            algbw_gbs,
            ..
        } = self;
        let bytes = Bytes(self.bytes).to_string();
        format!(
            "{operation:<15}{} {bytes:>10}{:>12} us  [{} .. {}]  {} GB/s",
            counted(*ranks, "rank"),
            fixed(*us, 1),
            fixed(*min_us, 1),
            fixed(*max_us, 1),
            fixed(*algbw_gbs, 3)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(ranks: usize, bytes: &[usize]) -> Outcome<Vec<usize>> {
        Collectives {
            ranks: Some(ranks),
            threads: 1,
            bytes: bytes.into(),
            collectives: CollectiveBackend::Library,
            save: None,
            json: false,
        }
        .sizes()
    }

    #[test]
    fn sizes_divide_among_the_ranks() {
        assert_eq!(sizes(2, &[]).unwrap(), BYTES);
        assert_eq!(sizes(3, &[]).unwrap()[..2], [1032, 4104]);
        assert_eq!(sizes(4, &[32]).unwrap(), [32]);
        assert_eq!(
            sizes(4, &[24]),
            Err(Failure::Usage(
                "--bytes: found 24, needs a multiple of 16".into()
            ))
        );
        assert_eq!(
            sizes(1, &[]),
            Err(Failure::Usage("--ranks: found 1, needs at least 2".into()))
        );
        assert_eq!((calls(256), calls(1 << 24)), (200, 15));
    }
}
