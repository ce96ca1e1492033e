//! Streams beyond the number of hardware queues share one: work waits for what was queued before it on another stream.
//! One test: the number is a setting of the process.

mod common;

use common::{Gate, Handle, Nvidia, c, nvidia};
use std::{ffi::c_void, thread, time::Duration};

const NOT_READY: i32 = 600;

fn state(nvidia: &Nvidia, stream: Handle) -> i32 {
    // Long enough for work that nothing holds.
    thread::sleep(Duration::from_millis(100));
    c!(nvidia.cuda, cuStreamQuery(stream => Handle))
}

#[test]
fn work_behind_a_stream_that_waits_waits_too() {
    // SAFETY: this program has one test, and no other thread reads the environment yet.
    unsafe { std::env::set_var("CUDA_DEVICE_MAX_CONNECTIONS", "2") };
    let Some(nvidia) = nvidia() else { return };
    nvidia.enter(0);
    let memory = nvidia.upload(&[0u32; 4]);
    let (first, second, third, gate) = (
        nvidia.stream(),
        nvidia.stream(),
        nvidia.stream(),
        Gate::default(),
    );
    let mut urgent: Handle = std::ptr::null_mut();
    assert_eq!(
        c!(nvidia.cuda, cuStreamCreateWithPriority(&mut urgent => *mut Handle, 1 => u32, -1 => i32)),
        0
    );
    let data = std::ptr::from_ref(&gate).cast_mut().cast::<c_void>();
    let function: extern "C" fn(*mut c_void) = Gate::hold;
    assert_eq!(
        c!(nvidia.cuda, cuLaunchHostFunc(first => Handle, function => extern "C" fn(*mut c_void), data => *mut c_void)),
        0
    );
    for (index, stream) in [second, third, urgent].into_iter().enumerate() {
        let at = memory + 4 * index as u64;
        assert_eq!(
            c!(nvidia.cuda, cuMemsetD32Async(at => u64, 1 => u32, 1 => usize, stream => Handle)),
            0
        );
    }
    let states = [second, third, urgent].map(|stream| state(nvidia, stream));
    // The default stream, which uploads, has a queue as well, so two of the four share the one that is held.
    let held = states.iter().filter(|&&state| state == NOT_READY).count();
    assert_eq!(held, 1, "{states:?}");
    assert_eq!(states[2], 0, "another priority has queues of its own");
    gate.open();
    assert_eq!(
        [first, second, third].map(|stream| nvidia.synchronize(stream)),
        [0; 3]
    );
    assert_eq!(nvidia.download::<u32>(memory, 3), [1; 3]);
}
