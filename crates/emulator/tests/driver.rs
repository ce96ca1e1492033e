//! The CUDA driver's memory, streams and events, called as a vendor's loader calls them.

mod common;

use common::{Gate, Handle, c, nvidia};
use std::ffi::c_void;

#[test]
fn devices_are_described() {
    let Some(nvidia) = nvidia() else { return };
    let (mut count, mut warp, mut major) = (0, 0, 0);
    assert_eq!(c!(nvidia.cuda, cuDeviceGetCount(&mut count => *mut i32)), 0);
    assert_eq!(count, 8);
    assert_eq!(
        c!(nvidia.cuda, cuDeviceGetAttribute(&mut warp => *mut i32, 10 => i32, 7 => i32)),
        0
    );
    assert_eq!(
        c!(nvidia.cuda, cuDeviceGetAttribute(&mut major => *mut i32, 75 => i32, 7 => i32)),
        0
    );
    assert_eq!((warp, major), (32, 9));
    assert_eq!(
        c!(nvidia.cuda, cuDeviceGetAttribute(&mut warp => *mut i32, 10 => i32, 8 => i32)),
        101
    );
}

#[test]
fn values_come_back_and_new_memory_holds_nan() {
    let Some(nvidia) = nvidia() else { return };
    nvidia.enter(0);
    let fresh = nvidia.allocate(12);
    assert!(
        nvidia
            .download::<f32>(fresh, 3)
            .iter()
            .all(|value| value.is_nan())
    );
    let address = nvidia.upload(&[1.5f32, -2.0, 3.25]);
    assert_eq!(
        c!(nvidia.cuda, cuMemcpyDtoD_v2(fresh => u64, address => u64, 12 => usize)),
        0
    );
    assert_eq!(nvidia.download::<f32>(fresh, 3), [1.5, -2.0, 3.25]);
    assert_eq!(
        c!(nvidia.cuda, cuMemsetD32_v2(fresh + 4 => u64, 7 => u32, 2 => usize)),
        0
    );
    assert_eq!(nvidia.download::<u32>(fresh, 3), [1.5f32.to_bits(), 7, 7]);
    assert_eq!((nvidia.free(fresh), nvidia.free(address)), (0, 0));
}

fn hold(nvidia: &common::Nvidia, stream: Handle, gate: &Gate) {
    let data = std::ptr::from_ref(gate).cast_mut().cast::<c_void>();
    let function: extern "C" fn(*mut c_void) = Gate::hold;
    assert_eq!(
        c!(nvidia.cuda, cuLaunchHostFunc(stream => Handle, function => extern "C" fn(*mut c_void), data => *mut c_void)),
        0
    );
}

#[test]
fn a_stream_waits_for_an_event_and_the_host_does_not() {
    let Some(nvidia) = nvidia() else { return };
    nvidia.enter(1);
    let (first, second, event, gate) = (
        nvidia.stream(),
        nvidia.stream(),
        nvidia.event(),
        Gate::default(),
    );
    let (from, to) = (nvidia.upload(&[5u32]), nvidia.upload(&[0u32]));
    hold(nvidia, first, &gate);
    assert_eq!(
        c!(nvidia.cuda, cuMemsetD32Async(from => u64, 9 => u32, 1 => usize, first => Handle)),
        0
    );
    assert_eq!(
        c!(nvidia.cuda, cuEventRecord(event => Handle, first => Handle)),
        0
    );
    assert_eq!(
        c!(nvidia.cuda, cuStreamWaitEvent(second => Handle, event => Handle, 0 => u32)),
        0
    );
    assert_eq!(
        c!(nvidia.cuda, cuMemcpyDtoDAsync_v2(to => u64, from => u64, 4 => usize, second => Handle)),
        0
    );
    assert_eq!(c!(nvidia.cuda, cuStreamQuery(second => Handle)), 600);
    assert_eq!(c!(nvidia.cuda, cuEventQuery(event => Handle)), 600);
    gate.open();
    assert_eq!(nvidia.synchronize(second), 0);
    assert_eq!(nvidia.download::<u32>(to, 1), [9]);
}

#[test]
fn pinned_memory_is_read_when_the_stream_comes_and_other_memory_at_once() {
    let Some(nvidia) = nvidia() else { return };
    nvidia.enter(2);
    let (stream, gate, to) = (nvidia.stream(), Gate::default(), nvidia.upload(&[0u32, 0]));
    let mut pinned: *mut u32 = std::ptr::null_mut();
    assert_eq!(
        c!(nvidia.cuda, cuMemHostAlloc(&mut pinned => *mut *mut u32, 4 => usize, 1 => u32)),
        0
    );
    let mut pageable = 1u32;
    // SAFETY: four bytes were allocated at `pinned`, and no copy from them has begun.
    unsafe { pinned.write(1) };
    hold(nvidia, stream, &gate);
    for (offset, from) in [(0, pinned.cast_const()), (4, &raw const pageable)] {
        let status = c!(nvidia.cuda, cuMemcpyHtoDAsync_v2(to + offset => u64, from => *const u32, 4 => usize, stream => Handle));
        assert_eq!(status, 0);
    }
    // SAFETY: the stream is held at the gate, so nothing reads these bytes now.
    unsafe { pinned.write(2) };
    pageable += 1;
    gate.open();
    assert_eq!(nvidia.synchronize(stream), 0);
    assert_eq!(
        nvidia.download::<u32>(to, 2),
        [2, 1],
        "after both were changed, the second to {pageable}"
    );
    assert_eq!(c!(nvidia.cuda, cuMemFreeHost(pinned => *mut u32)), 0);
}

#[test]
fn events_measure_time() {
    let Some(nvidia) = nvidia() else { return };
    nvidia.enter(3);
    let (stream, start, end, gate) = (
        nvidia.stream(),
        nvidia.event(),
        nvidia.event(),
        Gate::default(),
    );
    let mut milliseconds = 0f32;
    assert_eq!(
        c!(nvidia.cuda, cuEventRecord(start => Handle, stream => Handle)),
        0
    );
    // A stream's thread may be slow to come: the time begins once it has passed the event.
    assert_eq!(c!(nvidia.cuda, cuEventSynchronize(start => Handle)), 0);
    hold(nvidia, stream, &gate);
    assert_eq!(
        c!(nvidia.cuda, cuEventRecord(end => Handle, stream => Handle)),
        0
    );
    std::thread::sleep(std::time::Duration::from_millis(20));
    let early = c!(nvidia.cuda, cuEventElapsedTime(&mut milliseconds => *mut f32, start => Handle, end => Handle));
    assert_eq!(early, 600);
    gate.open();
    assert_eq!(c!(nvidia.cuda, cuEventSynchronize(end => Handle)), 0);
    let done = c!(nvidia.cuda, cuEventElapsedTime(&mut milliseconds => *mut f32, start => Handle, end => Handle));
    assert_eq!(done, 0);
    assert!(milliseconds >= 19.0, "{milliseconds} ms");
}

#[test]
fn memory_is_counted_and_ends() {
    let Some(nvidia) = nvidia() else { return };
    nvidia.enter(4);
    let (mut free, mut total, mut address) = (0usize, 0usize, 0u64);
    let held = nvidia.allocate(1 << 20);
    assert_eq!(
        c!(nvidia.cuda, cuMemGetInfo_v2(&mut free => *mut usize, &mut total => *mut usize)),
        0
    );
    assert_eq!(total - free, 1 << 20);
    assert_eq!(
        c!(nvidia.cuda, cuMemAlloc_v2(&mut address => *mut u64, free + 1 => usize)),
        2
    );
    assert_eq!(nvidia.free(held), 0);
    assert_eq!(
        c!(nvidia.cuda, cuMemGetInfo_v2(&mut free => *mut usize, &mut total => *mut usize)),
        0
    );
    assert_eq!(free, total);
}

#[test]
fn a_captured_sequence_runs_again_at_each_launch() {
    let Some(nvidia) = nvidia() else { return };
    nvidia.enter(5);
    let (stream, other, fork, join) = (
        nvidia.stream(),
        nvidia.stream(),
        nvidia.event(),
        nvidia.event(),
    );
    let memory = nvidia.upload(&[1u32, 2, 3]);
    let (mut graph, mut executable): (Handle, Handle) =
        (std::ptr::null_mut(), std::ptr::null_mut());
    assert_eq!(
        c!(nvidia.cuda, cuStreamBeginCapture_v2(stream => Handle, 1 => i32)),
        0
    );
    assert_eq!(
        c!(nvidia.cuda, cuMemcpyDtoDAsync_v2(memory => u64, memory + 4 => u64, 4 => usize, stream => Handle)),
        0
    );
    assert_eq!(
        c!(nvidia.cuda, cuEventRecord(fork => Handle, stream => Handle)),
        0
    );
    assert_eq!(
        c!(nvidia.cuda, cuStreamWaitEvent(other => Handle, fork => Handle, 0 => u32)),
        0
    );
    assert_eq!(
        c!(nvidia.cuda, cuMemcpyDtoDAsync_v2(memory + 4 => u64, memory + 8 => u64, 4 => usize, other => Handle)),
        0
    );
    assert_eq!(
        c!(nvidia.cuda, cuEventRecord(join => Handle, other => Handle)),
        0
    );
    assert_eq!(
        c!(nvidia.cuda, cuStreamWaitEvent(stream => Handle, join => Handle, 0 => u32)),
        0
    );
    assert_eq!(
        c!(nvidia.cuda, cuStreamEndCapture(stream => Handle, &mut graph => *mut Handle)),
        0
    );
    assert_eq!(
        nvidia.download::<u32>(memory, 3),
        [1, 2, 3],
        "captured work does not run"
    );
    assert_eq!(
        c!(nvidia.cuda, cuGraphInstantiateWithFlags(&mut executable => *mut Handle, graph => Handle, 0 => u64)),
        0
    );
    for expected in [[2, 3, 3], [3, 3, 3]] {
        assert_eq!(
            c!(nvidia.cuda, cuGraphLaunch(executable => Handle, stream => Handle)),
            0
        );
        assert_eq!(nvidia.synchronize(stream), 0);
        assert_eq!(nvidia.download::<u32>(memory, 3), expected);
    }
    assert_eq!(c!(nvidia.cuda, cuGraphExecDestroy(executable => Handle)), 0);
    assert_eq!(c!(nvidia.cuda, cuGraphDestroy(graph => Handle)), 0);
}

#[test]
fn a_capture_that_is_not_joined_fails() {
    let Some(nvidia) = nvidia() else { return };
    nvidia.enter(6);
    let (stream, other, fork) = (nvidia.stream(), nvidia.stream(), nvidia.event());
    let memory = nvidia.upload(&[1u32]);
    let mut graph: Handle = std::ptr::null_mut();
    assert_eq!(
        c!(nvidia.cuda, cuStreamBeginCapture_v2(stream => Handle, 1 => i32)),
        0
    );
    assert_eq!(
        c!(nvidia.cuda, cuEventRecord(fork => Handle, stream => Handle)),
        0
    );
    assert_eq!(
        c!(nvidia.cuda, cuStreamWaitEvent(other => Handle, fork => Handle, 0 => u32)),
        0
    );
    assert_eq!(
        c!(nvidia.cuda, cuMemsetD32Async(memory => u64, 2 => u32, 1 => usize, other => Handle)),
        0
    );
    assert_eq!(
        c!(nvidia.cuda, cuStreamEndCapture(stream => Handle, &mut graph => *mut Handle)),
        904
    );
    assert_eq!(c!(nvidia.cuda, cuStreamQuery(other => Handle)), 0);
}
