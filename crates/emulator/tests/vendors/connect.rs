//! A stage receives ahead: its first receive is queued before the neighbour can send. NCCL connects the two ranks with
//! that call and holds the host meanwhile, unless they have connected before.

use crate::{CUDA, ROCM, Way, on_devices};
use hal::{AbortSignal, Exchange, Join};
use std::{sync::Arc, time::Duration};
use tensor::{Communicator, DType, Device, Result, StreamKind, Tensor};
use testkit::try_ranks_with;

const TIMEOUT: Duration = Duration::from_secs(3);

fn join(device: &Device, everyone: &dyn Exchange, abort: Arc<AbortSignal>) -> Result<Communicator> {
    let own = match everyone.rank() {
        0 => device.hal().create_group()?.0,
        _ => Vec::new(),
    };
    let join = Join {
        id: hal::GroupId(everyone.broadcast(0, &own)?),
        label: "stages".into(),
        rank: everyone.rank(),
        members: vec![0, 1],
        timeout: TIMEOUT,
        abort,
    };
    Communicator::join(device, join, None)
}

/// Rank 1 receives ahead, and then does work of its own, without which rank 0 has nothing to send.
fn receives_ahead(way: Way, connects: bool) -> std::result::Result<Vec<Vec<f32>>, String> {
    try_ranks_with(TIMEOUT, 2, way.open, move |world, device| {
        let everyone = world.everyone();
        let group = join(&device, &*everyone, world.abort().clone())?;
        let stream = device.create_stream(StreamKind::Communication, "pipeline")?;
        if connects {
            group.connect()?;
        }
        let tensor = Tensor::full(&device, DType::F32, &[3], 5.0 * world.rank() as f64)?;
        if world.rank() == 1 {
            group.recv(&stream, &tensor, 0)?;
        }
        everyone.broadcast(1, b"done")?;
        if world.rank() == 0 {
            group.send(&stream, &tensor, 1)?;
        }
        Ok(tensor.to_vec()?)
    })
}

#[test]
fn a_stage_receives_ahead_once_it_has_connected() {
    for way in [CUDA, ROCM] {
        if on_devices() || !way.is_ready("receiving ahead") {
            continue;
        }
        assert_eq!(receives_ahead(way, true), Ok(vec![vec![0.0; 3]; 2]));
        let report = receives_ahead(way, false).expect_err("the host of rank 1 is held");
        assert!(report.contains("waited"), "{}: {report}", way.vendor);
    }
}
