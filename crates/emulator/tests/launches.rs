//! Launches: both vendors in one process, each with its own warp width. The kernel writes down its arguments.

mod common;

use common::{Handle, c, nvidia, open};
use fascicle_emulator::{Cuda, Hip};
use std::{ffi::c_void, path::Path, process::Command, ptr};

/// The one argument of the kernel in `kernel.cpp`.
#[repr(C)]
struct Arguments {
    to: u64,
    value: u32,
}

/// Compiles the kernel as the library that launches look functions up in.
fn kernels(folder: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel.cpp");
    let library = folder.join("kernel.so");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_string());
    let status = Command::new(compiler)
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(source)
        .status();
    assert!(status.is_ok_and(|status| status.success()));
    // SAFETY: this program has one test, and no other thread reads the environment yet.
    unsafe { std::env::set_var("FASCICLE_EMULATOR_SIMT", library) };
}

#[test]
fn both_vendors_launch_in_one_process() {
    let place = tempfile::tempdir().unwrap();
    let Some(folder) = common::folder(Cuda::V13, Hip::V6_4) else {
        return;
    };
    kernels(place.path());
    let Some(nvidia) = nvidia() else { return };
    nvidia.enter(0);
    on_cuda(nvidia);
    on_hip(&open(&folder, "libamdhip64.so.6"));
    assert_eq!(nvidia.misuses(), 5, "HIP's are counted apart");
}

fn on_cuda(nvidia: &common::Nvidia) {
    let cuda = &nvidia.cuda;
    let (mut module, mut function): (Handle, Handle) = (ptr::null_mut(), ptr::null_mut());
    let image = b"any image";
    assert_eq!(
        c!(cuda, cuModuleLoadData(&mut module => *mut Handle, image.as_ptr() => *const u8)),
        0
    );
    assert_eq!(
        c!(cuda, cuModuleGetFunction(&mut function => *mut Handle, module => Handle, c"absent".as_ptr() => *const _)),
        500
    );
    assert_eq!(
        c!(cuda, cuModuleGetFunction(&mut function => *mut Handle, module => Handle, c"say".as_ptr() => *const _)),
        0
    );
    let (stream, to) = (nvidia.stream(), nvidia.upload(&[0u32; 5]));
    let launch = |to: u64, threads: u32| {
        let arguments = Arguments { to, value: 77 };
        let mut parameters = [ptr::from_ref(&arguments).cast_mut().cast::<c_void>()];
        c!(cuda, cuLaunchKernel(function => Handle, 2 => u32, 3 => u32, 1 => u32, threads => u32, 1 => u32, 1 => u32, 16 => u32,
            stream => Handle, parameters.as_mut_ptr() => *mut Handle, ptr::null_mut() => *mut Handle))
    };
    assert_eq!(launch(to, 1025), 1);
    assert_eq!(launch(to, 128), 0);
    assert_eq!(nvidia.synchronize(stream), 0);
    assert_eq!(nvidia.download::<u32>(to, 5), [77, 6, 128, 16, 32]);
    let sized = |mut bytes: usize| {
        let arguments = Arguments { to, value: 77 };
        let mut extra: [Handle; 5] = [
            ptr::without_provenance_mut(1),
            ptr::from_ref(&arguments).cast_mut().cast(),
            ptr::without_provenance_mut(2),
            ptr::from_mut(&mut bytes).cast(),
            ptr::null_mut(),
        ];
        c!(cuda, cuLaunchKernel(function => Handle, 1 => u32, 1 => u32, 1 => u32, 32 => u32, 1 => u32, 1 => u32, 0 => u32,
            stream => Handle, ptr::null_mut() => *mut Handle, extra.as_mut_ptr() => *mut Handle))
    };
    assert_eq!(sized(size_of::<Arguments>()), 0);
    assert_eq!(sized(8), 1, "an argument of another size");
    let other = nvidia.stream();
    assert_eq!(
        c!(cuda, cuMemsetD32Async(to => u64, 1 => u32, 1 => usize, other => Handle)),
        0
    );
    assert_eq!(nvidia.misuses(), 4, "the kernel is not ordered before it");
    assert_eq!(c!(cuda, cuCtxSynchronize()), 719);
    assert_eq!(c!(cuda, cuModuleUnload(module => Handle)), 0);
    assert_eq!(launch(to, 128), 400, "the function went with its module");
}

fn on_hip(hip: &libloading::Library) {
    let (mut module, mut function, mut to): (Handle, Handle, Handle) =
        (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    let image = b"any image";
    assert_eq!(c!(hip, hipSetDevice(1 => i32)), 0);
    assert_eq!(c!(hip, hipMalloc(&mut to => *mut Handle, 20 => usize)), 0);
    assert_eq!(
        c!(hip, hipModuleLoadData(&mut module => *mut Handle, image.as_ptr() => *const u8)),
        0
    );
    assert_eq!(
        c!(hip, hipModuleGetFunction(&mut function => *mut Handle, module => Handle, c"say".as_ptr() => *const _)),
        0
    );
    let arguments = Arguments {
        to: to as u64,
        value: 78,
    };
    let mut parameters = [ptr::from_ref(&arguments).cast_mut().cast::<c_void>()];
    let mut launch = || {
        c!(hip, hipModuleLaunchKernel(function => Handle, 1 => u32, 1 => u32, 1 => u32, 64 => u32, 1 => u32, 1 => u32, 0 => u32,
            ptr::null_mut() => Handle, parameters.as_mut_ptr() => *mut Handle, ptr::null_mut() => *mut Handle))
    };
    assert_eq!(launch(), 0);
    let mut out = [0u32; 5];
    assert_eq!(
        c!(hip, hipMemcpy(out.as_mut_ptr() => *mut u32, to => Handle, 20 => usize, 2 => i32)),
        0
    );
    assert_eq!(out, [78, 1, 64, 0, 64]);
    assert_eq!(c!(hip, hipFree(to => Handle)), 0);
    assert_eq!(launch(), 0, "as on a device, the launch is accepted");
    assert_eq!(
        c!(hip, hipDeviceSynchronize()),
        700,
        "and its use of freed memory comes to light later"
    );
    assert_eq!(c!(hip, hipGetLastError()), 700);
    assert_eq!(c!(hip, hipGetLastError()), 0);
}
