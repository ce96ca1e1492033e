//! Collectives between processes: the contract suite, the bits of every type, subsets, and two streams at once.

use crate::run;
use bootstrap::{Processes, World};
use hal::{Counts, GroupId, Join, random::Key};
use tensor::{
    Communicator, DType, Device, ReduceOp, Result, Stream, StreamKind, Tensor, UnevenShards,
};
use testkit::contract;

/// Checks all of them, and returns a description of what was checked.
pub(crate) fn check(processes: &'static dyn Processes) -> std::result::Result<String, String> {
    run(processes, 60, |world, device| {
        contract::collectives::check_rank(world, device)?;
        bits_are_those_of_the_order_of_ranks(world, device)?;
        many_at_once_are_those_one_by_one(world, device)?;
        subsets_talk_apart(world, device)?;
        two_streams_share_a_group(world, device)?;
        long_messages_cross(world, device)?;
        exchanges_keep_their_calls_apart(world)
    })?;
    let ranks = processes.join().map_err(|error| error.to_string())?.size;
    Ok(format!("{ranks} processes: collectives are right"))
}

pub(crate) fn join(
    world: &World,
    device: &Device,
    label: &str,
    members: &[usize],
) -> Result<Communicator> {
    let exchange = world.exchange(label, members)?;
    let own = if exchange.rank() == 0 {
        device.hal().create_group()?.0
    } else {
        Vec::new()
    };
    let id = GroupId(exchange.broadcast(0, &own)?);
    let join = Join {
        id,
        label: label.into(),
        rank: exchange.rank(),
        members: members.to_vec(),
        timeout: world.timeout(),
        abort: world.abort().clone(),
    };
    Communicator::join(device, join, None)
}

fn all(world: &World) -> Vec<usize> {
    (0..world.size()).collect()
}

// Numbers of a rank whose sums are inexact, so that another order of addends would be detected.
fn numbers(rank: usize, count: usize) -> Vec<f64> {
    let key = Key::new(rank as u64, "addends", 0);
    (0..count as u64)
        .map(|index| f64::from(key.uniform(index)) * 2.0 - 0.7)
        .collect()
}

// The sum of the addends in the order of ranks, in f32 (in f64 for doubles), rounded once.
fn expected(
    device: &Device,
    dtype: DType,
    op: ReduceOp,
    size: usize,
    count: usize,
) -> Result<Vec<f64>> {
    let rounded = |numbers: &[f64]| Tensor::from_f64(device, dtype, &[count], numbers)?.to_f64();
    let mut whole = rounded(&numbers(0, count))?;
    for rank in 1..size {
        let addend = rounded(&numbers(rank, count))?;
        whole
            .iter_mut()
            .zip(&addend)
            .for_each(|(sum, x)| *sum = reduced(dtype, op, *sum, *x));
    }
    if op == ReduceOp::Avg {
        let over = |sum: f64| match dtype {
            DType::F64 => sum / size as f64,
            _ => f64::from(sum as f32 / size as f32),
        };
        whole.iter_mut().for_each(|it| *it = over(*it));
    }
    rounded(&whole)
}

fn reduced(dtype: DType, op: ReduceOp, a: f64, b: f64) -> f64 {
    match op {
        ReduceOp::Max => a.max(b),
        ReduceOp::Min => a.min(b),
        _ if dtype == DType::F64 => a + b,
        _ => f64::from(a as f32 + b as f32),
    }
}

fn bits_are_those_of_the_order_of_ranks(world: &World, device: &Device) -> Result<()> {
    let (rank, size) = (world.rank(), world.size());
    let group = join(world, device, "bits", &all(world))?;
    let stream = device.compute();
    for dtype in [DType::F64, DType::F32, DType::Bf16, DType::F16] {
        for count in [1, 5, 1000, 70_001, 600_011] {
            for op in [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Avg] {
                let whole = expected(device, dtype, op, size, count)?;
                let own = Tensor::from_f64(device, dtype, &[count], &numbers(rank, count))?;
                group.all_reduce(&stream, &own, op)?;
                assert!(
                    own.to_f64()? == whole,
                    "all_reduce {} of {count} x {dtype}",
                    op.name()
                );
                let counts = uneven(count, size);
                let send = Tensor::from_f64(device, dtype, &[count], &numbers(rank, count))?;
                let recv = Tensor::zeros(device, dtype, &[counts.of(rank)])?;
                group.reduce_scatter(&stream, &send, &recv, &counts, op)?;
                let part = &whole[counts.before(rank)..counts.before(rank) + counts.of(rank)];
                assert!(
                    recv.to_f64()? == part,
                    "reduce_scatter {} of {count} x {dtype}",
                    op.name()
                );
            }
        }
    }
    Ok(())
}

// More than have room at a time, of very different lengths, as a step's gradients are.
fn many_at_once_are_those_one_by_one(world: &World, device: &Device) -> Result<()> {
    const COUNTS: [usize; 6] = [0, 100_011, 1, 20_001, 5, 80_000];
    let (rank, size) = (world.rank(), world.size());
    let group = join(world, device, "many", &all(world))?;
    let stream = device.compute();
    let counts = || (0..24).map(|index| COUNTS[index % COUNTS.len()] + index);
    let given = |count: usize| {
        let dtype = [DType::F32, DType::Bf16, DType::F64][count % 3];
        Tensor::from_f64(device, dtype, &[count], &numbers(rank, count))
    };
    let whole = |tensor: &Tensor| {
        let (dtype, count) = (tensor.dtype(), tensor.num_elements());
        expected(device, dtype, ReduceOp::Sum, size, count)
    };
    let sums = counts().map(given).collect::<Result<Vec<_>>>()?;
    group.all_reduces(&stream, &sums.iter().collect::<Vec<_>>(), ReduceOp::Sum)?;
    for tensor in &sums {
        assert!(
            tensor.to_f64()? == whole(tensor)?,
            "all_reduces: {tensor:?}"
        );
    }
    // Each for one owner, in turn.
    let owned = counts().enumerate().map(|(index, count)| {
        let mut parts = vec![0; size];
        parts[index % size] = count;
        let send = given(count)?;
        let recv = Tensor::zeros(device, send.dtype(), &[parts[rank]])?;
        Ok((send, recv, Counts::Uneven(parts)))
    });
    let owned = owned.collect::<Result<Vec<_>>>()?;
    let parts = owned
        .iter()
        .map(|(send, recv, counts)| UnevenShards { send, recv, counts });
    group.reduce_scatters(&stream, &parts.collect::<Vec<_>>(), ReduceOp::Sum)?;
    for (send, recv, _) in owned.iter().filter(|(_, recv, _)| recv.num_elements() > 0) {
        assert!(recv.to_f64()? == whole(send)?, "reduce_scatters: {send:?}");
    }
    Ok(())
}

// Parts of very different sizes, the first ones empty.
fn uneven(count: usize, size: usize) -> Counts {
    let cut = |rank: usize| count * rank * rank / (size * size);
    Counts::Uneven((0..size).map(|rank| cut(rank + 1) - cut(rank)).collect())
}

fn subsets_talk_apart(world: &World, device: &Device) -> Result<()> {
    let (rank, size) = (world.rank(), world.size());
    // Reversed, so that positions in the group differ from those in the job.
    let members: Vec<usize> = (0..size)
        .rev()
        .filter(|other| other % 2 == rank % 2)
        .collect();
    let group = join(
        world,
        device,
        if rank % 2 == 0 { "even" } else { "odd" },
        &members,
    )?;
    let tensor = Tensor::full(device, DType::F32, &[3000], rank as f64)?;
    group.all_reduce(&device.compute(), &tensor, ReduceOp::Sum)?;
    assert_eq!(
        tensor.to_f64()?,
        vec![members.iter().sum::<usize>() as f64; 3000]
    );
    let root = Tensor::full(device, DType::F32, &[7], rank as f64)?;
    group.broadcast(&device.compute(), &root, members.len() - 1)?;
    assert_eq!(root.to_f64()?, [members[members.len() - 1] as f64; 7]);
    Ok(())
}

// One rank queues the first call and runs the second at once; the others do the opposite.
fn two_streams_share_a_group(world: &World, device: &Device) -> Result<()> {
    let group = join(world, device, "streams", &all(world))?;
    let (inline, queued) = (
        device.compute(),
        device.create_stream(StreamKind::Communication, "beside")?,
    );
    let first = Tensor::full(device, DType::F32, &[200_000], 1.0)?;
    let second = Tensor::full(device, DType::F32, &[200_000], 2.0)?;
    let (a, b): (&Stream, &Stream) = if world.rank() == 0 {
        (&queued, &inline)
    } else {
        (&queued, &queued)
    };
    group.all_reduce(a, &first, ReduceOp::Sum)?;
    group.all_reduce(b, &second, ReduceOp::Sum)?;
    let size = world.size() as f64;
    assert!(first.to_f64()?.iter().all(|&number| number == size));
    assert!(second.to_f64()?.iter().all(|&number| number == 2.0 * size));
    Ok(())
}

// Both directions at once, far above the size that MPI sends eagerly.
fn long_messages_cross(world: &World, device: &Device) -> Result<()> {
    let (rank, size) = (world.rank(), world.size());
    if size == 1 {
        return Ok(());
    }
    let group = join(world, device, "ring", &all(world))?;
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    let send = Tensor::full(device, DType::F32, &[3 << 20], rank as f64)?;
    let recv = Tensor::zeros(device, DType::F32, &[3 << 20])?;
    group.send_recv(&device.compute(), (&send, next), (&recv, before))?;
    assert!(recv.to_f64()?.iter().all(|&number| number == before as f64));
    Ok(())
}

fn exchanges_keep_their_calls_apart(world: &World) -> Result<()> {
    let (rank, members) = (world.rank(), all(world));
    let pair = [
        world.exchange("same", &members)?,
        world.exchange("same", &members)?,
    ];
    for turn in 0..20u8 {
        for which in [0, 1] {
            let mine = [rank as u8, turn, which as u8].repeat(1 + 40 * turn as usize);
            let got = pair[which].all_gather(&mine)?;
            for (of, bytes) in got.iter().enumerate() {
                assert_eq!(
                    bytes,
                    &[of as u8, turn, which as u8].repeat(1 + 40 * turn as usize)
                );
            }
        }
        let root = turn as usize % members.len();
        assert_eq!(pair[0].broadcast(root, &[rank as u8])?, [root as u8]);
    }
    Ok(())
}
