//! A workspace belongs to a GEMM until the GEMM is done: a use or a free that comes too early is detected.

use crate::{
    common::{Gate, Handle, c},
    matmul::{Matmul, Matrix, Places, WORKSPACE},
    vendor::{Vendor, vendors},
};
use std::{
    ffi::c_void,
    ptr,
    sync::atomic::{AtomicBool, Ordering},
};

#[test]
fn a_workspace_freed_too_early_is_written_late() {
    let Some(cuda) = vendors().first() else {
        return;
    };
    let _alone = cuda.alone(0);
    let mut matmul = Matmul::new(cuda, [Matrix(0, 4, 4, 4); 4], [false; 2], [1.0, 0.0]);
    assert_eq!(matmul.choose(), (0, 1, WORKSPACE));
    let (a, workspace, gate) = (
        cuda.upload(&[1f32; 32]),
        cuda.allocate(WORKSPACE),
        Gate::default(),
    );
    let stream = stream(&cuda.runtime);
    matmul.stream = stream;
    let held = c!(cuda.runtime, cuLaunchHostFunc(stream => Handle, Gate::hold => extern "C" fn(*mut c_void),
        (&raw const gate).cast_mut().cast() => *mut c_void));
    assert_eq!(held, 0);
    assert_eq!(
        matmul.run(Places {
            a,
            b: a,
            c: 0,
            d: a + 64,
            workspace,
            bytes: WORKSPACE
        }),
        0
    );
    cuda.free(workspace);
    gate.open();
    assert_eq!(c!(cuda.runtime, cuStreamSynchronize(stream => Handle)), 0);
    let before = cuda.misuses();
    // Freed memory is checked once more has been freed after it than the quarantine holds.
    let large = cuda.allocate(65 << 20);
    cuda.free(large);
    assert!(cuda.misuses() > before);
    cuda.free(a);
    assert_eq!(c!(cuda.runtime, cuStreamDestroy_v2(stream => Handle)), 0);
    matmul.destroy();
}

/// Two streams of a device, and what a GEMM on the first one needs. It takes long enough for others to interfere.
struct Long<'vendor> {
    cuda: &'vendor Vendor,
    matmul: Matmul<'vendor>,
    places: Places,
    ours: Handle,
    other: Handle,
}

impl<'vendor> Long<'vendor> {
    fn new(cuda: &'vendor Vendor) -> Self {
        let mut matmul = Matmul::new(cuda, [Matrix(0, 768, 768, 768); 4], [false; 2], [1.0, 0.0]);
        assert_eq!(matmul.choose(), (0, 1, WORKSPACE));
        let a = cuda.upload(&vec![1f32; 768 * 768]);
        let places = Places {
            a,
            b: a,
            c: 0,
            d: cuda.allocate(4 * 768 * 768),
            workspace: cuda.allocate(WORKSPACE),
            bytes: WORKSPACE,
        };
        let (ours, other) = (stream(&cuda.runtime), stream(&cuda.runtime));
        matmul.stream = ours;
        Self {
            cuda,
            matmul,
            places,
            ours,
            other,
        }
    }

    fn synchronize(&self) -> i32 {
        c!(self.cuda.runtime, cuStreamSynchronize(self.ours => Handle))
    }
}

static OVER: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_: *mut c_void) {
    OVER.store(true, Ordering::Release);
}

// Whether the two meet in time does not matter for the first report. A second one follows if they did.
#[test]
fn a_workspace_that_another_stream_writes_is_noticed() {
    let Some(cuda) = vendors().first() else {
        return;
    };
    let _alone = cuda.alone(7);
    let long = Long::new(cuda);
    let before = cuda.misuses();
    assert_eq!(long.matmul.run(long.places), 0);
    let noted = c!(cuda.runtime, cuLaunchHostFunc(long.ours => Handle, note => extern "C" fn(*mut c_void),
        ptr::null_mut() => *mut c_void));
    assert_eq!(noted, 0);
    c!(cuda.runtime, cuMemsetD8Async(long.places.workspace => u64, 1 => u8, 64 => usize, long.other => Handle));
    assert!(cuda.misuses() > before);
    assert_ne!(long.synchronize(), 0, "the context has a fault");
    // A stream with a fault is not waited for, but the next test counts only what comes after this one.
    while !OVER.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    assert!(cuda.misuses() <= before + 2);
}

// What no call announces, such as a kernel that writes behind its operands, shows in the bytes alone.
#[test]
fn a_workspace_that_nobody_announced_to_write_is_noticed() {
    let Some(cuda) = vendors().first() else {
        return;
    };
    let _alone = cuda.alone(5);
    let long = Long::new(cuda);
    let before = cuda.misuses();
    // This thread may lose its processor for as long as a GEMM runs.
    for _ in 0..100 {
        if cuda.misuses() > before {
            break;
        }
        assert_eq!(long.matmul.run(long.places), 0);
        while c!(cuda.runtime, cuStreamQuery(long.ours => Handle)) == 600 {
            // SAFETY: the emulator's device memory is memory of this process, and the workspace is live.
            unsafe { (long.places.workspace as *mut u8).write_volatile(1) };
        }
    }
    assert_eq!(cuda.misuses(), before + 1);
    assert_ne!(long.synchronize(), 0, "the context has a fault");
}

fn stream(runtime: &libloading::Library) -> Handle {
    let mut stream: Handle = ptr::null_mut();
    assert_eq!(
        c!(runtime, cuStreamCreate(&mut stream => *mut Handle, 1 => u32)),
        0
    );
    stream
}
