//! Collectives between ranks that are threads, on both kinds of stream, against sums on the host.

use super::{Open, compare, equal, numbers};
use bootstrap::{World, local};
use hal::{Counts, Join};
use std::time::Duration;
use tensor::{Communicator, DType, Device, ReduceOp, Result, Stream, StreamKind, Tensor};

/// The numbers of ranks at which a vendor shows its collectives.
pub const RANKS: [usize; 5] = [1, 2, 3, 4, 8];

/// Checks all collectives between that many ranks, with sizes that do not divide, and a mismatched call.
///
/// # Panics
/// If the vendor breaks the contract.
pub fn check(open: Open, ranks: usize) {
    run(open, ranks, every_collective).unwrap_or_else(|error| panic!("{ranks} ranks: {error}"));
    if ranks == 2 {
        check_mismatch(open);
    }
}

fn check_mismatch(open: Open) {
    let mismatch = |device: &Device, group: &Communicator, stream: &Stream| {
        let count = 4 + usize::from(group.rank() == 1);
        group.all_reduce(
            stream,
            &Tensor::zeros(device, DType::F32, &[count])?,
            ReduceOp::Sum,
        )
    };
    let message = run(open, 2, mismatch).unwrap_err();
    assert!(
        message.contains("all_reduce(4 x f32") && message.contains("all_reduce(5 x f32"),
        "{message}"
    );
}

fn run(
    open: Open,
    ranks: usize,
    body: impl Fn(&Device, &Communicator, &Stream) -> Result<()> + Send + Sync + 'static,
) -> std::result::Result<(), String> {
    let options = local::Options::new(ranks).with_timeout(Duration::from_secs(20));
    let results = local::run(options, move |world| -> Result<()> {
        on_both_streams(&world, &Device::new(open(world.rank())?)?, &body)
    });
    results.map(drop).map_err(|failure| failure.to_string())
}

/// Checks all collectives on one rank of a world that a launcher started; every rank calls this.
///
/// # Errors
/// A failure of the rank or of another.
///
/// # Panics
/// If the vendor or the launcher's transport breaks the contract.
pub fn check_rank(world: &World, device: &Device) -> Result<()> {
    on_both_streams(world, device, &every_collective)
}

fn on_both_streams(
    world: &World,
    device: &Device,
    body: &dyn Fn(&Device, &Communicator, &Stream) -> Result<()>,
) -> Result<()> {
    let group = join(world, device)?;
    for stream in [
        device.compute(),
        device.create_stream(StreamKind::Communication, "collectives")?,
    ] {
        body(device, &group, &stream)?;
        stream.synchronize()?;
    }
    Ok(())
}

fn join(world: &World, device: &Device) -> Result<Communicator> {
    let everyone = world.everyone();
    let own = if world.rank() == 0 {
        device.hal().create_group()?.0
    } else {
        Vec::new()
    };
    let join = Join {
        id: hal::GroupId(everyone.broadcast(0, &own)?),
        label: "everyone".into(),
        rank: world.rank(),
        members: (0..world.size()).collect(),
        timeout: world.timeout(),
        abort: world.abort().clone(),
    };
    // Checked mode compares calls on the host, whatever the vendor does.
    Communicator::join(
        device,
        join,
        Some(world.exchange("checked", &(0..world.size()).collect::<Vec<_>>())?),
    )
}

fn every_collective(device: &Device, group: &Communicator, stream: &Stream) -> Result<()> {
    let (rank, size) = (group.rank(), group.size());
    for count in [1, 7, 1000] {
        let all: Vec<Vec<f64>> = (0..size)
            .map(|rank| numbers(count, rank as u64 + 10))
            .collect();
        let of = |rank: usize| &all[rank];
        let sum = |i: usize| all.iter().map(|numbers| numbers[i]).sum::<f64>();
        let tensor = Tensor::from_f64(device, DType::F32, &[count], of(rank))?;
        group.all_reduce(stream, &tensor, ReduceOp::Sum)?;
        equal(
            "all_reduce: sums of 32nds are exact",
            &tensor,
            &(0..count).map(sum).collect::<Vec<_>>(),
        );
        let tensor = Tensor::from_f64(device, DType::F32, &[count], of(rank))?;
        group.all_reduce(stream, &tensor, ReduceOp::Max)?;
        let largest = |i: usize| {
            all.iter()
                .map(|numbers| numbers[i])
                .fold(f64::MIN, f64::max)
        };
        equal(
            "all_reduce of the largest",
            &tensor,
            &(0..count).map(largest).collect::<Vec<_>>(),
        );
        let tensor = Tensor::from_f64(device, DType::F32, &[count], of(rank))?;
        group.all_reduce(stream, &tensor, ReduceOp::Avg)?;
        let average = |i: usize| sum(i) / size as f64;
        compare(
            "all_reduce of averages",
            &tensor,
            &(0..count).map(average).collect::<Vec<_>>(),
            1.0,
        );
        let root = size - 1;
        let tensor = Tensor::from_f64(device, DType::F32, &[count], of(rank))?;
        group.broadcast(stream, &tensor, root)?;
        equal("broadcast", &tensor, of(root));
    }
    parts(device, group, stream)?;
    messages(device, group, stream)?;
    group.barrier(stream)
}

fn parts(device: &Device, group: &Communicator, stream: &Stream) -> Result<()> {
    let (rank, size) = (group.rank(), group.size());
    for counts in [
        Counts::Even(5),
        Counts::Uneven((0..size).map(|rank| rank * 3 % 4).collect()),
    ] {
        let (total, own) = (counts.total(size), counts.of(rank));
        let whole: Vec<f64> = numbers(total, 3);
        let place = counts.before(rank)..counts.before(rank) + own;
        let send = Tensor::from_f64(device, DType::F32, &[own], &whole[place.clone()])?;
        let recv = Tensor::zeros(device, DType::F32, &[total])?;
        group.all_gather(stream, &send, &recv, &counts)?;
        equal(&format!("all_gather of {counts:?}"), &recv, &whole);
        let send = Tensor::from_f64(device, DType::F32, &[total], &whole)?;
        let recv = Tensor::zeros(device, DType::F32, &[own])?;
        group.reduce_scatter(stream, &send, &recv, &counts, ReduceOp::Sum)?;
        let expected: Vec<f64> = whole[place.clone()]
            .iter()
            .map(|x| x * size as f64)
            .collect();
        equal(&format!("reduce_scatter of {counts:?}"), &recv, &expected);
        let send = Tensor::from_f64(device, DType::F32, &[total], &whole)?;
        group.reduce_scatter(stream, &send, &recv, &counts, ReduceOp::Avg)?;
        let what = format!("reduce_scatter of averages, {counts:?}");
        compare(&what, &recv, &whole[place], 1.0);
    }
    let numbers: Vec<f64> = (0..size).map(|to| (rank * 100 + to) as f64).collect();
    let send = Tensor::from_f64(device, DType::F32, &[size], &numbers)?;
    let recv = Tensor::zeros(device, DType::F32, &[size])?;
    group.all_to_all(stream, &send, &recv)?;
    let expected: Vec<f64> = (0..size).map(|from| (from * 100 + rank) as f64).collect();
    equal("all_to_all", &recv, &expected);
    Ok(())
}

// A ring in which every rank sends and receives at once.
fn messages(device: &Device, group: &Communicator, stream: &Stream) -> Result<()> {
    let (rank, size) = (group.rank(), group.size());
    if size == 1 {
        return Ok(());
    }
    let send = Tensor::full(device, DType::F32, &[300], rank as f64)?;
    let recv = Tensor::zeros(device, DType::F32, &[300])?;
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    group.send_recv(stream, (&send, next), (&recv, before))?;
    equal("a ring of messages", &recv, &[before as f64; 300]);
    Ok(())
}
