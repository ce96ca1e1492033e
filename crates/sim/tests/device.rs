//! What a simulated device accepts and what it refuses.

mod support;

use hal::{
    AbortSignal, Collective, DType, Device, Error, Join, Kernel, RawSlice, ReduceOp, StreamKind,
    kernel::Fill,
};
use std::{sync::Arc, time::Duration};
use support::{device, perlmutter};

fn alone() -> Arc<dyn Device> {
    device(&perlmutter(), 1, 0, None).unwrap().0
}

#[test]
fn memory_is_that_of_the_machine_and_no_more() {
    let device = alone();
    let memory = device.memory().unwrap();
    assert!(
        memory.total > 30 << 30 && memory.free == memory.total,
        "{memory:?}"
    );
    let half = device.allocate(memory.total / 2).unwrap();
    let error = device.allocate(memory.total / 2 + 4096).unwrap_err();
    assert!(
        matches!(error, Error::OutOfMemory { free, .. } if free < memory.total),
        "{error}"
    );
    // SAFETY: the buffer is this device's, and nothing was queued.
    unsafe { device.deallocate(half) };
    assert_eq!(device.memory().unwrap().free, memory.total);
}

#[test]
fn numbers_cannot_be_read() {
    let device = alone();
    let stream = device.create_stream(StreamKind::Compute).unwrap();
    let buffer = device.allocate(4).unwrap();
    let mut bytes = [0; 4];
    // SAFETY: the buffer is live and holds 4 bytes.
    let (written, read) = unsafe {
        (
            stream.upload(buffer, &bytes),
            stream.download(&mut bytes, buffer),
        )
    };
    assert!(written.is_ok() && matches!(read, Err(Error::NoValues { .. })));
    assert!(
        !device.capabilities().holds_values
            && device.capabilities().description.contains("Perlmutter")
    );
}

#[test]
fn work_on_memory_that_is_gone_is_an_error() {
    let device = alone();
    let stream = device.create_stream(StreamKind::Compute).unwrap();
    let buffer = device.allocate(400).unwrap();
    let fill = |len| {
        Kernel::Fill(Fill {
            out: RawSlice {
                addr: buffer.addr,
                len,
                dtype: DType::F32,
            },
            value: 0.0,
        })
    };
    // SAFETY: this vendor touches no memory, so it can say so.
    let launch = |len| unsafe { device.kernels().unwrap().launch(&*stream, &fill(len)) };
    assert!(launch(100).is_ok());
    assert!(
        launch(1000)
            .unwrap_err()
            .to_string()
            .contains("fill: 4000 bytes")
    );
    // SAFETY: the buffer is this device's.
    unsafe { device.deallocate(buffer) };
    assert!(launch(100).is_err());
}

#[test]
fn handles_of_another_device_are_refused() {
    let (one, other) = (alone(), alone());
    let [own, foreign] =
        [&one, &other].map(|device| device.create_stream(StreamKind::Compute).unwrap());
    assert!(
        own.wait(&*foreign.record().unwrap())
            .unwrap_err()
            .to_string()
            .contains("another device")
    );
    let slice = RawSlice {
        addr: one.allocate(4).unwrap().addr,
        len: 1,
        dtype: DType::F32,
    };
    let fill = Kernel::Fill(Fill {
        out: slice,
        value: 0.0,
    });
    // SAFETY: this vendor touches no memory.
    assert!(unsafe { one.kernels().unwrap().launch(&*foreign, &fill) }.is_err());
}

// One rank of 32,768 stands for all others in its groups: a collective with them completes alone, at the
// group's cost.
#[test]
fn a_live_rank_stands_for_its_peers() {
    let ranks = 32_768;
    let machine = grid::machine::Machine::find("frontier").unwrap();
    let (device, recorder) = device(&machine, ranks, 0, Some([0].into())).unwrap();
    let stream = device.create_stream(StreamKind::Communication).unwrap();
    let time = |label: &str, members: Vec<usize>| {
        let (timeout, abort) = (Duration::from_secs(1), Arc::new(AbortSignal::new()));
        let id = hal::GroupId(Vec::new());
        let group = device
            .join(Join {
                id,
                label: label.into(),
                rank: 0,
                members,
                timeout,
                abort,
            })
            .unwrap();
        let buffer = RawSlice {
            addr: device.allocate(64 << 20).unwrap().addr,
            len: 16 << 20,
            dtype: DType::F32,
        };
        recorder.begin().unwrap();
        // SAFETY: the buffer is live.
        unsafe {
            group.run(
                &*stream,
                &[Collective::AllReduce {
                    buffer,
                    op: ReduceOp::Sum,
                }],
            )
        }
        .unwrap();
        recorder.finish().unwrap().total_s
    };
    let node = time("axis x (main)", (0..8).collect());
    let machine = time("axis data (bucket)", (0..ranks).step_by(8).collect());
    assert!(node > 0.0 && machine > node, "{node} {machine}");
    let breakdown = recorder.finish().unwrap();
    let labels: Vec<&str> = breakdown.groups.iter().map(|group| &*group.label).collect();
    assert_eq!(labels, ["axis x (main)", "axis data (bucket)"]);
}

// The block is reused with its use on the other stream recorded, and the next tensor waits for that use.
#[test]
fn memory_of_a_second_compute_stream_is_used_again_behind_its_work() -> hal::Result<()> {
    let machine = grid::machine::Machine::find("frontier").unwrap();
    let (device, _) = device(&machine, 8, 0, Some([0].into()))?;
    let device = tensor::Device::new(device)?;
    let second = device.create_stream(StreamKind::Compute, "second")?;
    let join = Join {
        id: hal::GroupId(Vec::new()),
        label: "axis x".into(),
        rank: 0,
        members: (0..8).collect(),
        timeout: Duration::from_secs(1),
        abort: Arc::new(AbortSignal::new()),
    };
    let group = tensor::Communicator::join(&device, join, None)?;
    let zeros = || tensor::Tensor::zeros(&device, DType::F32, &[16 << 20]);
    let first = zeros()?;
    tensor::trace::start(&device);
    group.all_reduce(&second, &first, ReduceOp::Sum)?;
    drop(first);
    let _next = zeros()?;
    let spans = tensor::trace::finish(&device)?;
    let [reduced, filled] = &spans[..] else {
        panic!("{spans:?}")
    };
    assert!(reduced.duration_us > 100.0, "{reduced:?}");
    let end = reduced.start_us + reduced.duration_us;
    assert!(filled.start_us >= end, "{reduced:?} {filled:?}");
    Ok(())
}
