//! A caller's mistakes give the vendor's errors, and are reported. One test: it counts the reports of the process.

mod common;

use common::{Handle, Nvidia, c, nvidia};
use std::ptr;

/// Runs a call that must be reported as a mistake, and returns its status.
fn reported(nvidia: &Nvidia, call: impl FnOnce() -> i32) -> i32 {
    let before = nvidia.misuses();
    let status = call();
    assert!(
        nvidia.misuses() > before,
        "status {status} without a report"
    );
    status
}

#[test]
fn mistakes_are_found() {
    let Some(nvidia) = nvidia() else { return };
    nvidia.enter(0);
    freed_memory(nvidia);
    ends_of_memory(nvidia);
    destroyed_handles(nvidia);
    other_devices(nvidia);
    no_context(nvidia);
}

fn freed_memory(nvidia: &Nvidia) {
    let (freed, other) = (nvidia.upload(&[1u32]), nvidia.upload(&[2u32]));
    assert_eq!(nvidia.free(freed), 0);
    assert_eq!(reported(nvidia, || nvidia.free(freed)), 1);
    assert_eq!(
        reported(
            nvidia,
            || c!(nvidia.cuda, cuMemcpyDtoD_v2(other => u64, freed => u64, 4 => usize))
        ),
        1
    );
    assert_eq!(
        reported(
            nvidia,
            || c!(nvidia.cuda, cuMemsetD8_v2(freed => u64, 0 => u8, 4 => usize))
        ),
        1
    );
    assert_eq!(reported(nvidia, || nvidia.free(other + 4)), 1);
    assert_eq!(nvidia.download::<u32>(other, 1), [2]);
    assert_eq!(nvidia.free(other), 0);
}

fn ends_of_memory(nvidia: &Nvidia) {
    let address = nvidia.upload(&[1u8; 100]);
    // SAFETY: the bytes lie in the last page of the allocation.
    let behind = unsafe { ((address + 100) as *const f32).read_unaligned() };
    assert!(behind.is_nan(), "a read behind the end gives {behind}");
    assert_eq!(
        reported(
            nvidia,
            || c!(nvidia.cuda, cuMemsetD8_v2(address + 50 => u64, 0 => u8, 51 => usize))
        ),
        1
    );
    // SAFETY: the allocation's pages are readable and writable; byte 100 is behind its end and in the same page.
    unsafe { (address as *mut u8).add(100).write(0) };
    assert_eq!(
        reported(nvidia, || nvidia.free(address)),
        0,
        "freed, and the overrun reported"
    );
}

fn destroyed_handles(nvidia: &Nvidia) {
    let (stream, event) = (nvidia.stream(), nvidia.event());
    assert_eq!(c!(nvidia.cuda, cuStreamDestroy_v2(stream => Handle)), 0);
    assert_eq!(c!(nvidia.cuda, cuEventDestroy_v2(event => Handle)), 0);
    assert_eq!(reported(nvidia, || nvidia.synchronize(stream)), 400);
    assert_eq!(
        reported(
            nvidia,
            || c!(nvidia.cuda, cuStreamDestroy_v2(stream => Handle))
        ),
        400
    );
    assert_eq!(
        reported(nvidia, || c!(nvidia.cuda, cuEventQuery(event => Handle))),
        400
    );
}

fn other_devices(nvidia: &Nvidia) {
    let (event, far) = (nvidia.event(), nvidia.upload(&[1u32]));
    nvidia.enter(1);
    let stream = nvidia.stream();
    assert_eq!(
        reported(
            nvidia,
            || c!(nvidia.cuda, cuEventRecord(event => Handle, stream => Handle))
        ),
        400
    );
    let fill =
        || c!(nvidia.cuda, cuMemsetD8Async(far => u64, 0 => u8, 4 => usize, stream => Handle));
    assert_eq!(reported(nvidia, fill), 1, "without peer access");
    let mut handle: Handle = ptr::null_mut();
    assert_eq!(
        c!(nvidia.cublas, cublasCreate_v2(&mut handle => *mut Handle)),
        0
    );
    nvidia.enter(0);
    let one = 1f32;
    let gemm = || {
        c!(nvidia.cublas, cublasGemmEx(handle => Handle, 0 => i32, 0 => i32, 1 => i32, 1 => i32, 1 => i32, &raw const one => *const f32,
            far => u64, 0 => i32, 1 => i32, far => u64, 0 => i32, 1 => i32, &raw const one => *const f32, far => u64, 0 => i32,
            1 => i32, 68 => i32, -1 => i32))
    };
    assert_eq!(reported(nvidia, gemm), 13, "the handle is of device 1");
    assert_eq!(c!(nvidia.cublas, cublasDestroy_v2(handle => Handle)), 0);
}

fn no_context(nvidia: &Nvidia) {
    let mut address = 0u64;
    let allocate = || c!(nvidia.cuda, cuMemAlloc_v2(&mut address => *mut u64, 4 => usize));
    let status = std::thread::scope(|scope| scope.spawn(|| reported(nvidia, allocate)).join());
    assert_eq!(status.ok(), Some(201));
}
