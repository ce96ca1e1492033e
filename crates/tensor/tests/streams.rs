//! Work on several streams: the shell waits if one reads what another writes, and keeps memory until it is
//! unused.

use bootstrap::{World, local};
use fascicle_tensor::{Communicator, DType, Device, ReduceOp, Result, StreamKind, Tensor, ops};
use std::time::Duration;

fn join(world: &World, device: &Device) -> Result<Communicator> {
    let everyone = world.everyone();
    let own = if world.rank() == 0 {
        device.hal().create_group()?.0
    } else {
        Vec::new()
    };
    let join = hal::Join {
        id: hal::GroupId(everyone.broadcast(0, &own)?),
        label: "everyone".into(),
        rank: world.rank(),
        members: (0..world.size()).collect(),
        timeout: world.timeout(),
        abort: world.abort().clone(),
    };
    Communicator::join(device, join, None)
}

fn two_ranks(body: impl Fn(&World, &Device, &Communicator) -> Result<()> + Send + Sync + 'static) {
    let options = local::Options::new(2).with_timeout(Duration::from_secs(20));
    let run = local::run(options, move |world| -> Result<()> {
        let device = Device::new(cpu::open(cpu::Options {
            ordinal: world.rank(),
            ..cpu::Options::default()
        })?)?;
        let group = join(&world, &device)?;
        body(&world, &device, &group)
    });
    run.unwrap_or_else(|failure| panic!("{}", failure.report()));
}

// Rank 1 is late, so that on rank 0 the collective is still running when its result is requested.
fn late(world: &World) {
    if world.rank() == 1 {
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_result_of_another_stream_is_waited_for() {
    two_ranks(|world, device, group| {
        let stream = device.create_stream(StreamKind::Communication, "beside")?;
        let tensor = Tensor::full(device, DType::F32, &[1000], 1.0)?;
        late(world);
        group.all_reduce(&stream, &tensor, ReduceOp::Sum)?;
        let doubled = ops::add(&tensor, &tensor)?;
        assert_eq!(doubled.to_vec::<f32>()?, [4.0; 1000]);
        Ok(())
    });
}

#[test]
fn what_another_stream_still_reads_is_not_overwritten() {
    two_ranks(|world, device, group| {
        let stream = device.create_stream(StreamKind::Communication, "beside")?;
        let part = Tensor::full(device, DType::F32, &[500], world.rank() as f64 + 1.0)?;
        let whole = Tensor::zeros(device, DType::F32, &[1000])?;
        late(world);
        group.all_gather(&stream, &part, &whole, &hal::Counts::Even(500))?;
        part.fill(9.0)?;
        let found = whole.to_vec::<f32>()?;
        assert!(found[..500].iter().all(|x| *x == 1.0) && found[500..].iter().all(|x| *x == 2.0));
        Ok(())
    });
}

#[test]
fn a_tensor_dropped_while_in_use_keeps_its_memory_until_then() {
    two_ranks(|world, device, group| {
        let stream = device.create_stream(StreamKind::Communication, "beside")?;
        for round in 0..20 {
            let whole = Tensor::zeros(device, DType::F32, &[1000])?;
            let part = Tensor::full(device, DType::F32, &[500], f64::from(round))?;
            late(world);
            group.all_gather(&stream, &part, &whole, &hal::Counts::Even(500))?;
            drop(part);
            // This would receive the memory of `part`, and corrupt it, if that memory were already free.
            let other = Tensor::full(device, DType::F32, &[500], -1.0)?;
            assert_eq!(whole.to_vec::<f32>()?, [round as f32; 1000]);
            assert_eq!(other.to_vec::<f32>()?, [-1.0; 500]);
        }
        Ok(())
    });
}

#[test]
fn views_share_their_storage_also_for_ordering() {
    two_ranks(|world, device, group| {
        let stream = device.create_stream(StreamKind::Communication, "beside")?;
        let whole = Tensor::full(device, DType::F32, &[10, 100], 1.0)?;
        late(world);
        group.all_reduce(&stream, &whole.rows(3, 4)?, ReduceOp::Sum)?;
        let found = whole.to_vec::<f32>()?;
        let expected = |index: usize| {
            if (300..700).contains(&index) {
                2.0
            } else {
                1.0
            }
        };
        assert!(
            found
                .iter()
                .enumerate()
                .all(|(index, x)| *x == expected(index))
        );
        Ok(())
    });
}
