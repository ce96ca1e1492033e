//! Another library's stream and memory: collectives run on them in that library's order, and neither is freed.

use crate::{
    CUDA, CUDA_STAGED, Way,
    common::{Handle, c, open},
    on_devices,
};
use fascicle_emulator as emulator;
use hal::{Error, Join, ReduceOp};
use libloading::Library;
use std::{ffi::c_void, ptr, time::Duration};
use tensor::{Communicator, DType, Device, Tensor};
use testkit::try_ranks_with;

const TIMEOUT: Duration = Duration::from_secs(10);
const COUNT: usize = 1000;

/// Memory and a stream that a framework has made by itself on a device.
struct Framework {
    cuda: Library,
    stream: Handle,
    memory: u64,
}

impl Framework {
    fn new(device: &Device) -> Framework {
        let folder = emulator::for_test("foreign streams").expect("ready");
        let cuda = open(&folder, "libcuda.so.1");
        let (mut context, mut stream): (Handle, Handle) = (ptr::null_mut(), ptr::null_mut());
        let (ordinal, mut memory) = (device.id().ordinal as i32, 0);
        let bytes = COUNT * size_of::<f32>();
        let made = [
            c!(cuda, cuDevicePrimaryCtxRetain(&mut context => *mut Handle, ordinal => i32)),
            c!(cuda, cuCtxSetCurrent(context => Handle)),
            c!(cuda, cuStreamCreate(&mut stream => *mut Handle, 1 => u32)),
            c!(cuda, cuMemAlloc_v2(&mut memory => *mut u64, bytes => usize)),
        ];
        assert_eq!(made, [0; 4]);
        Framework {
            cuda,
            stream,
            memory,
        }
    }

    fn fill(&self, value: f32) {
        let filled = c!(self.cuda, cuMemsetD32Async(self.memory => u64, value.to_bits() => u32, COUNT => usize,
            self.stream => Handle));
        assert_eq!(filled, 0);
    }

    fn read(&self) -> Vec<f32> {
        let mut values = vec![0f32; COUNT];
        let (to, bytes) = (
            values.as_mut_ptr().cast::<c_void>(),
            COUNT * size_of::<f32>(),
        );
        let copied = c!(self.cuda, cuMemcpyDtoHAsync_v2(to => *mut c_void, self.memory => u64, bytes => usize,
            self.stream => Handle));
        assert_eq!(
            (
                copied,
                c!(self.cuda, cuStreamSynchronize(self.stream => Handle))
            ),
            (0, 0)
        );
        values
    }

    /// Both must still be the framework's own.
    fn end(self) {
        let ended = [
            c!(self.cuda, cuMemFree_v2(self.memory => u64)),
            c!(self.cuda, cuStreamDestroy_v2(self.stream => Handle)),
        ];
        assert_eq!(ended, [0; 2]);
    }
}

fn sums(way: Way) -> std::result::Result<Vec<Vec<f32>>, String> {
    try_ranks_with(TIMEOUT, 2, way.open, move |world, device| {
        let everyone = world.everyone();
        let id = match everyone.rank() {
            0 => device.hal().create_group()?.0,
            _ => Vec::new(),
        };
        let join = Join {
            id: hal::GroupId(everyone.broadcast(0, &id)?),
            label: "frameworks".into(),
            rank: everyone.rank(),
            members: vec![0, 1],
            timeout: TIMEOUT,
            abort: world.abort().clone(),
        };
        let group = Communicator::join(&device, join, None)?;
        let framework = Framework::new(&device);
        framework.fill(2.0 + world.rank() as f32);
        {
            // SAFETY: the stream and the memory live until `end`, after a wait for the stream.
            let stream =
                unsafe { device.adopt_stream(framework.stream.expose_provenance(), "theirs") }?;
            // SAFETY: as above; only this stream uses the memory.
            let tensor = unsafe {
                Tensor::from_memory(&device, DType::F32, &[COUNT], framework.memory, None)
            }?;
            group.all_reduce(&stream, &tensor, ReduceOp::Sum)?;
            group.all_reduce(&stream, &tensor, ReduceOp::Sum)?;
        }
        let sums = framework.read();
        framework.end();
        Ok::<_, train::Error>(sums)
    })
}

#[test]
fn collectives_run_on_a_stream_and_memory_of_another_library() -> Result<(), Error> {
    for way in [CUDA, CUDA_STAGED] {
        if on_devices() || !way.is_ready("foreign streams") || !way.has_devices(2) {
            continue;
        }
        assert_eq!(
            sums(way),
            Ok(vec![vec![10.0; COUNT]; 2]),
            "{:?}",
            way.collectives
        );
    }
    Ok(())
}
