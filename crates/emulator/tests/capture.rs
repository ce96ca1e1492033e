//! What a capture forbids: calls that wait for the device, query it or change its memory, as far as the modes of the
//! capture and of the calling thread reach. One test: it counts the reports of the process.

mod common;

use common::{Handle, Nvidia, c, nvidia};
use std::{ffi::c_void, ptr, thread};

const GLOBAL: i32 = 0;
const THREAD_LOCAL: i32 = 1;
const RELAXED: i32 = 2;
const UNSUPPORTED: i32 = 900;
const INVALIDATED: i32 = 901;
const WRONG_THREAD: i32 = 908;

fn begin(nvidia: &Nvidia, mode: i32) -> Handle {
    let stream = nvidia.stream();
    assert_eq!(
        c!(nvidia.cuda, cuStreamBeginCapture_v2(stream => Handle, mode => i32)),
        0
    );
    stream
}

fn end(nvidia: &Nvidia, stream: Handle) -> i32 {
    let mut graph: Handle = ptr::null_mut();
    c!(nvidia.cuda, cuStreamEndCapture(stream => Handle, &mut graph => *mut Handle))
}

fn exchange(nvidia: &Nvidia, mut mode: i32) -> i32 {
    assert_eq!(
        c!(nvidia.cuda, cuThreadExchangeStreamCaptureMode(&mut mode => *mut i32)),
        0
    );
    mode
}

/// Objects that exist before a capture begins, and the unsafe calls on them.
struct Before {
    address: u64,
    pinned: Handle,
    event: Handle,
    other: Handle,
    module: Handle,
}

// SAFETY: the handles are numbers that the libraries check; any thread may pass them.
unsafe impl Sync for Before {}

type Call = fn(&Nvidia, &Before) -> i32;

const UNSAFE: [(&str, Call); 12] = [
    (
        "cuMemAlloc",
        |nvidia, _| c!(nvidia.cuda, cuMemAlloc_v2(&mut 0 => *mut u64, 4 => usize)),
    ),
    ("cuMemFree", |nvidia, before| nvidia.free(before.address)),
    (
        "cuMemHostAlloc",
        |nvidia, _| c!(nvidia.cuda, cuMemHostAlloc(&mut ptr::null_mut() => *mut Handle, 4 => usize, 0 => u32)),
    ),
    (
        "cuMemFreeHost",
        |nvidia, before| c!(nvidia.cuda, cuMemFreeHost(before.pinned => Handle)),
    ),
    (
        "cuEventQuery",
        |nvidia, before| c!(nvidia.cuda, cuEventQuery(before.event => Handle)),
    ),
    (
        "cuEventSynchronize",
        |nvidia, before| c!(nvidia.cuda, cuEventSynchronize(before.event => Handle)),
    ),
    (
        "cuStreamQuery",
        |nvidia, before| c!(nvidia.cuda, cuStreamQuery(before.other => Handle)),
    ),
    ("cuStreamSynchronize", |nvidia, before| {
        nvidia.synchronize(before.other)
    }),
    ("cuCtxSynchronize", |nvidia, _| {
        c!(nvidia.cuda, cuCtxSynchronize())
    }),
    ("cuModuleLoadData", |nvidia, _| {
        let image = b"any image";
        c!(nvidia.cuda, cuModuleLoadData(&mut ptr::null_mut() => *mut Handle, image.as_ptr() => *const u8))
    }),
    (
        "cuModuleUnload",
        |nvidia, before| c!(nvidia.cuda, cuModuleUnload(before.module => Handle)),
    ),
    (
        "cuMemcpyDtoD",
        |nvidia, before| c!(nvidia.cuda, cuMemcpyDtoD_v2(before.address => u64, before.address + 8 => u64, 4 => usize)),
    ),
];

fn before(nvidia: &Nvidia) -> Before {
    let (mut pinned, mut module): (Handle, Handle) = (ptr::null_mut(), ptr::null_mut());
    assert_eq!(
        c!(nvidia.cuda, cuMemHostAlloc(&mut pinned => *mut Handle, 4 => usize, 0 => u32)),
        0
    );
    let image = b"any image";
    assert_eq!(
        c!(nvidia.cuda, cuModuleLoadData(&mut module => *mut Handle, image.as_ptr() => *const u8)),
        0
    );
    Before {
        address: nvidia.upload(&[1u32, 2, 3, 4]),
        pinned,
        event: nvidia.event(),
        other: nvidia.stream(),
        module,
    }
}

/// The status of the call on another thread, in that thread's mode.
fn elsewhere(nvidia: &'static Nvidia, before: &Before, call: Call, mode: i32) -> i32 {
    thread::scope(|scope| {
        let run = || {
            nvidia.enter(0);
            assert_eq!(exchange(nvidia, mode), GLOBAL, "of a new thread");
            call(nvidia, before)
        };
        scope.spawn(run).join().expect("the call returns")
    })
}

#[test]
fn captures_forbid_what_a_device_forbids() {
    let Some(nvidia) = nvidia() else { return };
    nvidia.enter(0);
    for (name, call) in UNSAFE {
        let reports = nvidia.misuses();
        for mode in [GLOBAL, THREAD_LOCAL] {
            let (before, stream) = (before(nvidia), begin(nvidia, mode));
            assert_eq!(call(nvidia, &before), UNSUPPORTED, "{name}, mode {mode}");
            assert_eq!(end(nvidia, stream), INVALIDATED, "{name}, mode {mode}");
            assert_eq!(call(nvidia, &before), 0, "{name} after the capture");
        }
        assert_eq!(nvidia.misuses(), reports + 2, "{name}");
        let (before, stream) = (before(nvidia), begin(nvidia, RELAXED));
        // Waiting for all streams includes the captured one, which no mode allows.
        let expected = if name == "cuCtxSynchronize" {
            UNSUPPORTED
        } else {
            0
        };
        assert_eq!(call(nvidia, &before), expected, "{name}, relaxed");
        assert_eq!(end(nvidia, stream), 0);
    }
    other_threads(nvidia);
    workspaces(nvidia);
}

fn other_threads(nvidia: &'static Nvidia) {
    let (name, call) = UNSAFE[4];
    let objects = before(nvidia);
    for (of_capture, of_thread, expected) in [
        (THREAD_LOCAL, GLOBAL, 0),
        (GLOBAL, THREAD_LOCAL, 0),
        (GLOBAL, RELAXED, 0),
        (RELAXED, GLOBAL, 0),
        (GLOBAL, GLOBAL, UNSUPPORTED),
    ] {
        let stream = begin(nvidia, of_capture);
        let status = elsewhere(nvidia, &objects, call, of_thread);
        assert_eq!(status, expected, "{name}: {of_capture}, {of_thread}");
        let ended = if expected == 0 { 0 } else { INVALIDATED };
        assert_eq!(end(nvidia, stream), ended);
    }
    let stream = begin(nvidia, THREAD_LOCAL) as usize;
    let ended = thread::scope(|scope| {
        let ends = || end(nvidia, stream as Handle);
        scope.spawn(ends).join().expect("the call returns")
    });
    assert_eq!(ended, WRONG_THREAD);
    assert_eq!(end(nvidia, stream as Handle), 0);
}

/// A GEMM allocates its workspace in each capture, unless its handle has one of the caller's.
fn workspaces(nvidia: &Nvidia) {
    let (one, mut handle): (f32, Handle) = (1.0, ptr::null_mut());
    let at = nvidia.upload(&[1f32; 3]);
    let memory = nvidia.upload(&[0f32; 1024]);
    let set_stream = |handle: Handle, stream: Handle| c!(nvidia.cublas, cublasSetStream_v2(handle => Handle, stream => Handle));
    let gemm = |handle: Handle| {
        let scalar = ptr::from_ref(&one).cast::<c_void>();
        c!(nvidia.cublas, cublasGemmEx(handle => Handle, 0 => i32, 0 => i32, 1 => i32, 1 => i32, 1 => i32, scalar => *const c_void,
            at => u64, 0 => i32, 1 => i32, at + 4 => u64, 0 => i32, 1 => i32, scalar => *const c_void, at + 8 => u64, 0 => i32,
            1 => i32, 68 => i32, -1 => i32))
    };
    let stream = begin(nvidia, THREAD_LOCAL);
    assert_eq!(
        c!(nvidia.cublas, cublasCreate_v2(&mut handle => *mut Handle)),
        13,
        "a handle has memory"
    );
    assert_eq!(end(nvidia, stream), INVALIDATED);
    assert_eq!(
        c!(nvidia.cublas, cublasCreate_v2(&mut handle => *mut Handle)),
        0
    );
    let stream = begin(nvidia, THREAD_LOCAL);
    assert_eq!(set_stream(handle, stream), 0);
    assert_eq!(gemm(handle), 13, "its first GEMM");
    assert_eq!(end(nvidia, stream), INVALIDATED);
    assert_eq!(gemm(handle), 0);
    let stream = begin(nvidia, THREAD_LOCAL);
    assert_eq!(set_stream(handle, stream), 0);
    assert_eq!(gemm(handle), 13, "its second");
    assert_eq!(end(nvidia, stream), INVALIDATED);
    let stream = begin(nvidia, THREAD_LOCAL);
    assert_eq!(set_stream(handle, stream), 0);
    let workspace = |at: u64| c!(nvidia.cublas, cublasSetWorkspace_v2(handle => Handle, at => u64, 1024 => usize));
    assert_eq!(workspace(memory + 4), 7, "an address that is not aligned");
    assert_eq!(workspace(memory), 0);
    assert_eq!(gemm(handle), 0, "with a workspace");
    assert_eq!(end(nvidia, stream), 0);
    let stream = begin(nvidia, THREAD_LOCAL);
    assert_eq!(set_stream(handle, stream), 0, "which forgets the workspace");
    assert_eq!(gemm(handle), 13);
    assert_eq!(end(nvidia, stream), INVALIDATED);
}
