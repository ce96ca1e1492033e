//! Work that is recorded once is queued many times.

use crate::{CUDA, ROCM, Way};
use gpu::graph::Graph;
use hal::{
    DType, Kernel, RawSlice, Result, StreamKind,
    kernel::{Binary, BinaryOp},
};

const COUNT: usize = 1000;

/// Numbers after three launches of `x += y`, once run directly and once recorded.
fn sums(way: Way) -> Result<Vec<f32>> {
    let device = (way.open)(0)?;
    let (stream, kernels) = (device.create_stream(StreamKind::Compute)?, device.kernels()?);
    let buffers = [device.allocate(4 * COUNT)?, device.allocate(4 * COUNT)?];
    let [x, y] = buffers.map(|buffer| RawSlice { addr: buffer.addr, len: COUNT, dtype: DType::F32 });
    let add = Kernel::Binary(Binary { op: BinaryOp::Add, a: x, b: y, out: x });
    let mut bytes = vec![0; 4 * COUNT];
    // SAFETY: the buffers are live until the end, as long as the kernel's slices, and in no other use.
    unsafe {
        stream.upload(buffers[0], &1f32.to_le_bytes().repeat(COUNT))?;
        stream.upload(buffers[1], &0.5f32.to_le_bytes().repeat(COUNT))?;
        kernels.launch(&*stream, &add)?;
        let graph = Graph::record(device.id(), &*stream, || kernels.launch(&*stream, &add))?;
        for _ in 0..3 {
            graph.launch(&*stream)?;
        }
        stream.download(&mut bytes, buffers[0])?;
        stream.synchronize()?;
        buffers.iter().for_each(|buffer| device.deallocate(*buffer));
    }
    Ok(bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect())
}

#[test]
fn recorded_work_runs_at_each_launch_and_not_when_recorded() {
    for way in [CUDA, ROCM] {
        if way.is_ready("a graph") {
            assert_eq!(sums(way), Ok(vec![1.0 + 4.0 * 0.5; COUNT]), "{}", way.vendor);
        }
    }
}
