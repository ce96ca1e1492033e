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
    let [first, second, third] = [(); 3].map(|()| nvidia.stream());
    let [source, beside, behind] = [(); 3].map(|()| urgent(nvidia));
    let (event, gate) = (nvidia.event(), Gate::default());
    let data = std::ptr::from_ref(&gate).cast_mut().cast::<c_void>();
    let function: extern "C" fn(*mut c_void) = Gate::hold;
    let queued = [
        c!(nvidia.cuda, cuLaunchHostFunc(source => Handle, function => extern "C" fn(*mut c_void), data => *mut c_void)),
        c!(nvidia.cuda, cuEventRecord(event => Handle, source => Handle)),
        c!(nvidia.cuda, cuStreamWaitEvent(first => Handle, event => Handle, 0 => u32)),
    ];
    assert_eq!(queued, [0; 3]);
    let streams = [second, third, beside, behind];
    for (index, stream) in streams.into_iter().enumerate() {
        let at = memory + 4 * index as u64;
        assert_eq!(
            c!(nvidia.cuda, cuMemsetD32Async(at => u64, 1 => u32, 1 => usize, stream => Handle)),
            0
        );
    }
    let states = streams.map(|stream| state(nvidia, stream));
    // The default stream, which uploads, has a queue as well, so of the other two one shares that of the first.
    let held = states[..2].iter().filter(|&&state| state == NOT_READY);
    assert_eq!(held.count(), 1, "behind a wait: {states:?}");
    // Two of three urgent streams share a queue. The event is what the source's second piece of work waits for.
    let held = states[2..].iter().filter(|&&state| state == NOT_READY);
    assert_eq!(
        held.count(),
        1,
        "behind work that has not begun: {states:?}"
    );
    gate.open();
    assert_eq!(streams.map(|stream| nvidia.synchronize(stream)), [0; 4]);
    assert_eq!(nvidia.download::<u32>(memory, 4), [1; 4]);
}

fn urgent(nvidia: &Nvidia) -> Handle {
    let mut stream: Handle = std::ptr::null_mut();
    assert_eq!(
        c!(nvidia.cuda, cuStreamCreateWithPriority(&mut stream => *mut Handle, 1 => u32, -1 => i32)),
        0
    );
    stream
}
