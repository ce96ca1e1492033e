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
        warpgroups: false,
    }
}

/// Those of a device that has warpgroups.
pub fn with_warpgroups() -> DeviceTraits {
    DeviceTraits {
        warpgroups: true,
        ..traits(32)
    }
}

/// The devices whose launches of a kernel differ.
fn devices_of(kernel: &Kernel) -> Vec<DeviceTraits> {
    let functions = |traits: &DeviceTraits| -> Vec<String> {
        let launches = lower::lower(kernel, traits, 0).unwrap();
        let name = |launch: &Launch| launch.function.to_string();
        launches.iter().map(name).collect()
    };
    let mut devices = vec![traits(32), traits(64)];
    if functions(&with_warpgroups()) != functions(&traits(32)) {
        devices.push(with_warpgroups());
    }
    devices
}

/// Runs every launch of a kernel on the host, over scratch memory that begins as NaN.
fn run_lowered(library: &Library, kernel: &Kernel, traits: &DeviceTraits) {
    let bytes = lower::workspace_bytes(kernel, traits);
    let scratch = Memory::new(DType::F64, &vec![f64::NAN; bytes.div_ceil(8)], 0);
    let launches = lower::lower(kernel, traits, scratch.slice().addr).unwrap();
    launches
        .iter()
        .for_each(|launch| launch_on(library, launch, traits.warp));
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

/// The memories after a kernel that `make` builds from them has run with warps of `warp`; `None` if it cannot run here.
pub fn run(
    warp: u32,
    memories: &[Memory],
    make: impl Fn(&[RawSlice]) -> Kernel,
) -> Option<Vec<Vec<f64>>> {
    run_on(&traits(warp), memories, make)
}

/// The same on the device of `traits`.
pub fn run_on(
    traits: &DeviceTraits,
    memories: &[Memory],
    make: impl Fn(&[RawSlice]) -> Kernel,
) -> Option<Vec<Vec<f64>>> {
    let library = library()?;
    let (found, slices) = copy(memories);
    run_lowered(library, &make(&slices), traits);
    Some(found.iter().map(Memory::values).collect())
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

/// Runs the kernel that `make` builds from `memories` on both, with warps of 32 and 64 and by warpgroups where those have a
/// kernel of their own, and compares all memories.
///
/// Numbers may differ by `tolerance` times the largest number of their memory, and by no more than rounding in the
/// memory's own type explains: a wide result of 16-bit numbers is held to the wide type.
pub fn compare(memories: &[Memory], tolerance: f64, make: impl Fn(&[RawSlice]) -> Kernel) {
    let Some(library) = library() else { return };
    let (expected, slices) = copy(memories);
    run_reference(&make(&slices));
    for traits in devices_of(&make(&slices)) {
        let (found, slices) = copy(memories);
        let kernel = make(&slices);
        run_lowered(library, &kernel, &traits);
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let different = first_difference(found, expected, tolerance);
            assert!(
                different.is_none(),
                "{}, {traits:?}, argument {index}: {}: {kernel:?}",
                kernel.name(),
                different.unwrap_or_default()
            );
        }
    }
}

/// The most spacings of its own type by which an element may differ, relative to the largest.
const MOST_SPACINGS: f64 = 128.0;
/// What approximations of functions may cost in double precision.
const LEAST: f64 = 1e-11;

fn first_difference(found: &Memory, expected: &Memory, tolerance: f64) -> Option<String> {
    let own = (MOST_SPACINGS * expected.spacing()).max(LEAST);
    let tolerance = tolerance.min(own);
    let (found, expected) = (found.numbers(), expected.numbers());
    let largest = expected
        .iter()
        .filter(|x| x.is_finite())
        .fold(0.0f64, |largest, x| largest.max(x.abs()));
    let close = |found: f64, expected: f64| {
        let same = found == expected || found.is_nan() && expected.is_nan();
        same || (found - expected).abs() <= tolerance * largest
    };
    let index = (0..expected.len()).find(|&index| !close(found[index], expected[index]))?;
    let (found, expected) = (found[index], expected[index]);
    Some(format!("element {index} is {found}, expected {expected}"))
}

#[test]
fn a_wide_result_of_16_bit_numbers_is_held_to_its_own_type() {
    let (of_16_bits, factors) = (3.0 * 7.9e-3, [1.0, 1.001]);
    let sums = factors.map(|factor| Memory::new(DType::F32, &[4.5 * factor, 5.0], 0));
    assert_eq!(first_difference(&sums[0], &sums[0], of_16_bits), None);
    assert!(first_difference(&sums[1], &sums[0], of_16_bits).is_some());
    let rounded = factors.map(|factor| Memory::new(DType::Bf16, &[4.5 * factor, 5.0], 0));
    assert_eq!(first_difference(&rounded[1], &rounded[0], of_16_bits), None);
}
