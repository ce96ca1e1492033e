//! Accesses that nothing orders are reported with the names of both, and become a fault of the device. One test: it
//! counts the reports of the process.

mod common;

use common::{Handle, Nvidia, c, nvidia};

const FAULT: i32 = 719;

/// Two streams of a device, and memory that both use.
struct Two {
    first: Handle,
    second: Handle,
    x: u64,
    y: u64,
}

fn two(nvidia: &Nvidia, device: i32) -> Two {
    nvidia.enter(device);
    let two = Two {
        first: nvidia.stream(),
        second: nvidia.stream(),
        x: nvidia.upload(&[0u32; 8]),
        y: nvidia.upload(&[0u32; 8]),
    };
    assert_eq!(c!(nvidia.cuda, cuCtxSynchronize()), 0);
    two
}

fn fill(nvidia: &Nvidia, stream: Handle, at: u64) -> i32 {
    c!(nvidia.cuda, cuMemsetD32Async(at => u64, 1 => u32, 4 => usize, stream => Handle))
}

fn copy(nvidia: &Nvidia, stream: Handle, to: u64, from: u64) -> i32 {
    c!(nvidia.cuda, cuMemcpyDtoDAsync_v2(to => u64, from => u64, 16 => usize, stream => Handle))
}

/// The second stream waits for what the first one has so far.
fn order(nvidia: &Nvidia, two: &Two) {
    let event = nvidia.event();
    let (record, wait) = (
        c!(nvidia.cuda, cuEventRecord(event => Handle, two.first => Handle)),
        c!(nvidia.cuda, cuStreamWaitEvent(two.second => Handle, event => Handle, 0 => u32)),
    );
    assert_eq!((record, wait), (0, 0));
}

type Steps = fn(&Nvidia, &Two);

/// Sequences that are in order.
const ORDERED: [(&str, Steps); 5] = [
    ("an event", |nvidia, two| {
        fill(nvidia, two.first, two.x);
        order(nvidia, two);
        copy(nvidia, two.second, two.y, two.x);
    }),
    ("a host that waits", |nvidia, two| {
        fill(nvidia, two.first, two.x);
        nvidia.synchronize(two.first);
        copy(nvidia, two.second, two.y, two.x);
    }),
    ("two that read", |nvidia, two| {
        copy(nvidia, two.first, two.y, two.x);
        copy(nvidia, two.second, two.y + 16, two.x);
    }),
    ("parts of one allocation", |nvidia, two| {
        fill(nvidia, two.first, two.x);
        fill(nvidia, two.second, two.x + 16);
    }),
    ("one stream", |nvidia, two| {
        fill(nvidia, two.first, two.x);
        copy(nvidia, two.first, two.y, two.x);
        fill(nvidia, two.first, two.x);
    }),
];

/// Sequences in which the last access is not ordered after an earlier one.
const RACES: [(&str, Steps); 5] = [
    ("a read of what is written", |nvidia, two| {
        fill(nvidia, two.first, two.x);
        copy(nvidia, two.second, two.y, two.x);
    }),
    ("a write over what is read", |nvidia, two| {
        copy(nvidia, two.first, two.y, two.x);
        fill(nvidia, two.second, two.x);
    }),
    ("an event that was recorded too early", |nvidia, two| {
        order(nvidia, two);
        fill(nvidia, two.first, two.x);
        copy(nvidia, two.second, two.y, two.x);
    }),
    ("one shared element", |nvidia, two| {
        fill(nvidia, two.first, two.x);
        fill(nvidia, two.second, two.x + 12);
    }),
    ("a host that reads too early", |nvidia, two| {
        fill(nvidia, two.first, two.x);
        let mut values = [0u32; 4];
        let to = values.as_mut_ptr().cast::<std::ffi::c_void>();
        c!(nvidia.cuda, cuMemcpyDtoHAsync_v2(to => *mut std::ffi::c_void, two.x => u64, 16 => usize, two.second => Handle));
    }),
];

#[test]
fn accesses_without_an_order_are_reported() {
    let Some(nvidia) = nvidia() else { return };
    for (name, steps) in ORDERED {
        let two = two(nvidia, 0);
        steps(nvidia, &two);
        assert_eq!(c!(nvidia.cuda, cuCtxSynchronize()), 0, "{name}");
        assert_eq!(nvidia.misuses(), 0, "{name}");
    }
    for (index, (name, steps)) in RACES.into_iter().enumerate() {
        let reports = nvidia.misuses();
        steps(nvidia, &two(nvidia, 1 + index as i32));
        assert_eq!(c!(nvidia.cuda, cuCtxSynchronize()), FAULT, "{name}");
        assert_eq!(nvidia.misuses(), reports + 1, "{name}");
    }
    nvidia.enter(0);
    let memory = nvidia.upload(&[0u32; 8]);
    let reports = nvidia.misuses();
    fill(nvidia, nvidia.stream(), memory);
    assert_eq!(nvidia.free(memory), 0, "a device accepts it");
    assert_eq!(nvidia.misuses(), reports + 1, "freed while it is written");
}
