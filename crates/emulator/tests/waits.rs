//! By option, calls that allocate, free or load wait for the running work of their device, and for none of another. One test: the
//! option is a setting of the process.

mod common;

use common::{Gate, Handle, Nvidia, c, nvidia};
use std::{
    ffi::c_void,
    ptr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

/// Page-aligned memory of the process.
#[repr(align(4096))]
struct Page([u8; 4096]);

/// Whether a call on device `device` waits for the work of device 0.
fn waits(nvidia: &'static Nvidia, device: i32, call: impl FnOnce() -> i32 + Send) -> bool {
    nvidia.enter(0);
    let (stream, gate, ended) = (nvidia.stream(), Gate::default(), AtomicBool::new(false));
    let data = ptr::from_ref(&gate).cast_mut().cast::<c_void>();
    let function: extern "C" fn(*mut c_void) = Gate::hold;
    assert_eq!(
        c!(nvidia.cuda, cuLaunchHostFunc(stream => Handle, function => extern "C" fn(*mut c_void), data => *mut c_void)),
        0
    );
    let waited = thread::scope(|scope| {
        scope.spawn(|| {
            nvidia.enter(device);
            assert_eq!(call(), 0);
            ended.store(true, Ordering::Release);
        });
        // Long enough for a call that waits for nothing.
        thread::sleep(Duration::from_millis(200));
        let waited = !ended.load(Ordering::Acquire);
        gate.open();
        waited
    });
    assert_eq!(nvidia.synchronize(stream), 0);
    waited
}

#[test]
fn what_may_wait_waits_for_its_own_device() {
    // SAFETY: this program has one test, and no other thread reads the environment yet.
    unsafe { std::env::set_var("FASCICLE_EMULATOR_WAITS", "allocate,pin,load") };
    let Some(nvidia) = nvidia() else { return };
    let cuda = &nvidia.cuda;
    nvidia.enter(0);
    let [first, second] = [nvidia.allocate(4), nvidia.allocate(4)];
    let allocate = || {
        let mut address = 0u64;
        c!(cuda, cuMemAlloc_v2(&mut address => *mut u64, 4 => usize))
    };
    let load = || {
        let mut module: Handle = ptr::null_mut();
        c!(cuda, cuModuleLoadData(&mut module => *mut Handle, b"any image".as_ptr() => *const u8))
    };
    let page = Page([0; 4096]);
    let at = page.0.as_ptr().addr();
    let register = || c!(cuda, cuMemHostRegister_v2(at => usize, 4096 => usize, 1 => u32));
    assert!(waits(nvidia, 0, allocate));
    assert!(!waits(nvidia, 1, allocate));
    assert!(waits(nvidia, 0, load));
    assert!(waits(nvidia, 0, register));
    // These were not named.
    assert!(!waits(
        nvidia,
        0,
        || c!(cuda, cuMemHostUnregister(at => usize))
    ));
    assert!(!waits(nvidia, 0, || c!(cuda, cuMemFree_v2(first => u64))));
    assert_eq!(nvidia.free(second), 0);
    assert_eq!(nvidia.misuses(), 0);
}
