//! The libraries obey their environment variables. One test: they read them once.

mod common;

use common::{c, nvidia};

#[test]
fn devices_memory_and_failures_follow_the_environment() {
    let settings = [
        ("FASCICLE_EMULATOR_DEVICES", "2"),
        ("FASCICLE_EMULATOR_MEMORY", "1m"),
        (
            "FASCICLE_EMULATOR_FAIL",
            "cuMemAlloc_v2:2:719,cuCtxSynchronize:1",
        ),
    ];
    for (name, value) in settings {
        // SAFETY: this program has one test, and no other thread reads the environment yet.
        unsafe { std::env::set_var(name, value) };
    }
    let Some(nvidia) = nvidia() else { return };
    let (mut count, mut address) = (0, 0u64);
    assert_eq!(c!(nvidia.cuda, cuDeviceGetCount(&mut count => *mut i32)), 0);
    assert_eq!(count, 2);
    nvidia.enter(1);
    let mut allocate =
        |bytes: usize| c!(nvidia.cuda, cuMemAlloc_v2(&mut address => *mut u64, bytes => usize));
    assert_eq!(
        [
            allocate(1 << 19),
            allocate(1),
            allocate(1 << 20),
            allocate(1 << 19)
        ],
        [0, 719, 2, 0]
    );
    assert_eq!(
        [
            c!(nvidia.cuda, cuCtxSynchronize()),
            c!(nvidia.cuda, cuCtxSynchronize())
        ],
        [999, 0]
    );
}
