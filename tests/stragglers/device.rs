//! The processor, with large GEMMs whose time is set, and longer while a flag is set.

#![allow(
    unsafe_code,
    reason = "a device that passes on the calls of its callers"
)]

use hal::{
    Blas, Capabilities, Communicator, Device, DeviceId, Gemm, GroupId, Join, Kernels, Memory,
    RawBuffer, Result, Stream, StreamKind,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// What a large GEMM takes beside its computation, which is short enough that a busy machine hardly counts; and while it is slow.
const USUAL: Duration = Duration::from_millis(10);
const SLOW: Duration = Duration::from_millis(700);

/// The sizes of a large one: those of the test's model are smaller, so that its steps are not slower.
const LARGE: usize = 1 << 22;

#[derive(Debug)]
struct Slow {
    device: Arc<dyn Device>,
    is_slow: Arc<AtomicBool>,
}

/// The device, slow while the flag is set.
pub fn wrap(device: Arc<dyn Device>, is_slow: Arc<AtomicBool>) -> Arc<dyn Device> {
    Arc::new(Slow { device, is_slow })
}

// SAFETY: every call is passed to a device that keeps the contract, with the caller's arguments.
unsafe impl Device for Slow {
    fn id(&self) -> DeviceId {
        self.device.id()
    }

    fn capabilities(&self) -> &Capabilities {
        self.device.capabilities()
    }

    fn memory(&self) -> Result<Memory> {
        self.device.memory()
    }

    fn allocate(&self, bytes: usize) -> Result<RawBuffer> {
        self.device.allocate(bytes)
    }

    unsafe fn deallocate(&self, buffer: RawBuffer) {
        // SAFETY: the caller guarantees the same.
        unsafe { self.device.deallocate(buffer) }
    }

    fn create_stream(&self, kind: StreamKind) -> Result<Arc<dyn Stream>> {
        self.device.create_stream(kind)
    }

    fn create_blas(&self) -> Result<Arc<dyn Blas>> {
        Ok(Arc::new(SlowBlas {
            blas: self.device.create_blas()?,
            is_slow: self.is_slow.clone(),
        }))
    }

    fn kernels(&self) -> Result<Arc<dyn Kernels>> {
        self.device.kernels()
    }

    fn create_group(&self) -> Result<GroupId> {
        self.device.create_group()
    }

    fn join(&self, join: Join) -> Result<Box<dyn Communicator>> {
        self.device.join(join)
    }
}

#[derive(Debug)]
struct SlowBlas {
    blas: Arc<dyn Blas>,
    is_slow: Arc<AtomicBool>,
}

// SAFETY: every call is passed to an implementation that keeps the contract, with the caller's arguments.
unsafe impl Blas for SlowBlas {
    fn prepare(&self, stream: &dyn Stream) -> Result<()> {
        self.blas.prepare(stream)
    }

    unsafe fn gemm(&self, stream: &dyn Stream, gemm: &Gemm) -> Result<()> {
        if gemm.m * gemm.n * gemm.k > LARGE {
            thread::sleep(match self.is_slow.load(Ordering::Relaxed) {
                true => SLOW,
                false => USUAL,
            });
        }
        // SAFETY: the caller guarantees the same.
        unsafe { self.blas.gemm(stream, gemm) }
    }

    fn fuses(&self, gemm: &Gemm) -> Result<bool> {
        self.blas.fuses(gemm)
    }

    fn choices(&self) -> Option<String> {
        self.blas.choices()
    }

    fn choose(&self, choices: &str, save: bool) -> Result<()> {
        self.blas.choose(choices, save)
    }
}
