//! The two ways to run a kernel: the reference vendor, and the device's kernels compiled for the host.

use crate::memory::Memory;
use fascicle_gpu::lower::{self, DeviceTraits, Launch};
use hal::{DType, DeviceId, Kernel, RawSlice, StreamKind, VendorId};
use std::{
    ffi::{CString, c_char, c_int, c_void},
    path::{Path, PathBuf},
    sync::OnceLock,
};

type LaunchFunction =
    unsafe extern "C" fn(*const c_char, *const u32, *const u32, u32, *const c_void, c_int) -> c_int;
type HasFunction = unsafe extern "C" fn(*const c_char, *mut usize) -> c_int;

struct Library {
    launch: LaunchFunction,
    has: HasFunction,
}

/// The library of kernels for the host: the one that `FASCICLE_EMULATOR_SIMT` names, or one built now.
fn find() -> Result<PathBuf, String> {
    match std::env::var_os("FASCICLE_EMULATOR_SIMT") {
        Some(path) => Ok(path.into()),
        None => Ok(emulator::build()?.join("libfascicle_simt.so")),
    }
}

/// That library, opened. If it cannot be built, prints why and returns none.
fn library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    let say = |reason: String| {
        assert!(std::env::var_os("FASCICLE_REQUIRE").is_none(), "{reason}");
        eprintln!("skipped: {reason}");
    };
    LIBRARY
        .get_or_init(|| find().map_err(say).ok().map(|path| open(&path)))
        .as_ref()
}

fn open(path: &Path) -> Library {
    // SAFETY: the library was built from this repository's sources; its initialisers only fill a table.
    let library = unsafe { libloading::Library::new(path) }.unwrap();
    let library = Box::leak(Box::new(library));
    // SAFETY: the type is that of the declaration in `launch.cpp`; the library stays loaded.
    let launch = unsafe {
        *library
            .get::<LaunchFunction>(b"fascicle_simt_launch")
            .unwrap()
    };
    // SAFETY: as above.
    let has = unsafe { *library.get::<HasFunction>(b"fascicle_simt_has").unwrap() };
    Library { launch, has }
}

pub fn traits(warp: u32) -> DeviceTraits {
    let device = DeviceId {
        vendor: if warp == 32 {
            VendorId::CUDA
        } else {
            VendorId::ROCM
        },
        ordinal: 0,
    };
    DeviceTraits {
        device,
        warp,
        multiprocessors: 108,
        shared_bytes_per_block: 48 << 10,
    }
}

/// Runs every launch of a kernel on the host, over scratch memory that begins as NaN.
fn run_lowered(library: &Library, kernel: &Kernel, warp: u32) {
    let traits = traits(warp);
    let bytes = lower::workspace_bytes(kernel, &traits);
    let scratch = Memory::new(DType::F64, &vec![f64::NAN; bytes.div_ceil(8)], 0);
    let launches = lower::lower(kernel, &traits, scratch.slice().addr).unwrap();
    launches
        .iter()
        .for_each(|launch| launch_on(library, launch, warp));
}

fn launch_on(library: &Library, launch: &Launch, warp: u32) {
    let name = CString::new(&*launch.function).unwrap();
    let mut needed = 0;
    // SAFETY: a string and a number to write to.
    let found = unsafe { (library.has)(name.as_ptr(), &mut needed) };
    assert!(
        found == 1 && needed == launch.arguments.len(),
        "{}: {needed} bytes",
        launch.function
    );
    let (grid, block) = (launch.grid.as_ptr(), launch.block.as_ptr());
    let arguments = launch.arguments.as_ptr().cast();
    // SAFETY: the arguments have the size that the function takes, checked above; the memory behind them lives.
    let status = unsafe {
        (library.launch)(
            name.as_ptr(),
            grid,
            block,
            launch.shared_bytes,
            arguments,
            warp as c_int,
        )
    };
    assert_eq!(status, 0, "{launch:?}");
}

/// Runs one launch on the host with warps of `warp`. Returns whether it could.
pub fn run_launch(launch: &Launch, warp: u32) -> bool {
    library()
        .map(|library| launch_on(library, launch, warp))
        .is_some()
}

/// Runs a kernel on the reference vendor.
pub fn run_reference(kernel: &Kernel) {
    let device = cpu::open(cpu::Options::default()).unwrap();
    let stream = device.create_stream(StreamKind::Compute).unwrap();
    // SAFETY: the memories live until the stream is done, and have the types and lengths that the kernel asks for.
    unsafe { device.kernels().unwrap().launch(&*stream, kernel) }.unwrap();
    stream.synchronize().unwrap();
}

fn copy(memories: &[Memory]) -> (Vec<Memory>, Vec<RawSlice>) {
    let copies: Vec<Memory> = memories.iter().map(Memory::copy).collect();
    let slices = copies.iter().map(Memory::slice).collect();
    (copies, slices)
}

/// Runs the kernel that `make` builds from `memories` on both, with warps of 32 and 64, and compares all memories.
///
/// Numbers may differ by `tolerance` times the largest number of their memory.
pub fn compare(memories: &[Memory], tolerance: f64, make: impl Fn(&[RawSlice]) -> Kernel) {
    let Some(library) = library() else { return };
    let (expected, slices) = copy(memories);
    run_reference(&make(&slices));
    for warp in [32, 64] {
        let (found, slices) = copy(memories);
        let kernel = make(&slices);
        run_lowered(library, &kernel, warp);
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_close(&found.numbers(), &expected.numbers(), tolerance, || {
                format!(
                    "{}, warp {warp}, argument {index}: {kernel:?}",
                    kernel.name()
                )
            });
        }
    }
}

fn assert_close(found: &[f64], expected: &[f64], tolerance: f64, what: impl Fn() -> String) {
    let largest = expected
        .iter()
        .filter(|x| x.is_finite())
        .fold(0.0f64, |largest, x| largest.max(x.abs()));
    for (index, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let same = found == expected || found.is_nan() && expected.is_nan();
        let close = (found - expected).abs() <= tolerance * largest;
        assert!(
            same || close,
            "{}: element {index} is {found}, expected {expected}",
            what()
        );
    }
}
