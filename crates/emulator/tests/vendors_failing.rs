//! Makes every call into the vendors' libraries fail in turn, on the emulator. Each failure gives an error that names
//! the call, without a panic, a hang, or anything left behind.

use fascicle_emulator as emulator;
use hal::{GroupId, Join};
use std::{
    ffi::{CString, c_char, c_int, c_long, c_ulong},
    panic::catch_unwind,
    path::Path,
    time::{Duration, Instant},
};
use tensor::{Communicator, DType, Device, ReduceOp, Result, StreamKind, Tensor, ops};
use testkit::contract::Open;

const CUDA: Open = |ordinal| cuda::open(options(ordinal));
const ROCM: Open = |ordinal| rocm::open(options(ordinal));

/// Matmuls are timed, so that all their variants are called. No file is written, because no ranks agree.
fn options(ordinal: usize) -> gpu::Options {
    let absent = std::env::temp_dir().join("fascicle-vendors-failing/absent.txt");
    gpu::Options {
        ordinal,
        settings: hal::DeviceSettings {
            matmul_choices: Some(absent),
            ..hal::DeviceSettings::default()
        },
        ..gpu::Options::default()
    }
}

/// From this length on, a copy of locked pages needs no block in between.
const LOCKED_BYTES: usize = 1 << 20;

/// The functions that the emulator exports for tests.
struct Emulator {
    library: rccl_sys::Library,
}

impl Emulator {
    fn open(folder: &Path, common: &str) -> Emulator {
        let search = rccl_sys::Search {
            first: vec![folder.to_path_buf()],
            last: vec![],
        };
        let library = rccl_sys::Library::open("emulator", &[common], &search);
        Emulator {
            library: library.expect("the emulator's common part"),
        }
    }

    fn symbol<F: Copy>(&self, name: &str) -> F {
        let address = self
            .library
            .symbol(name)
            .expect("a symbol that the emulator exports");
        assert_eq!(size_of::<F>(), size_of_val(&address));
        // SAFETY: the callers below name the types that the emulator documents; a function pointer is as large.
        unsafe { std::mem::transmute_copy(&address) }
    }

    fn reset(&self) {
        let reset: unsafe extern "C" fn() = self.symbol("fascicle_emulator_reset");
        // SAFETY: the function has no conditions.
        unsafe { reset() }
    }

    fn fail(&self, symbol: &str, nth: c_long) {
        let fail: unsafe extern "C" fn(*const c_char, c_long, c_int) =
            self.symbol("fascicle_emulator_fail");
        let symbol = CString::new(symbol).unwrap();
        // SAFETY: the name lives through the call.
        unsafe { fail(symbol.as_ptr(), nth, -1) }
    }

    fn text(&self, function: &str) -> String {
        let text: unsafe extern "C" fn(*mut c_char, c_ulong) -> c_ulong = self.symbol(function);
        let mut bytes = vec![0u8; 64 << 10];
        // SAFETY: the buffer is as long as told.
        unsafe { text(bytes.as_mut_ptr().cast(), bytes.len() as c_ulong) };
        let end = bytes.iter().position(|&byte| byte == 0).unwrap();
        String::from_utf8(bytes[..end].to_vec()).unwrap()
    }

    /// Symbols that were called since the last reset, and how often.
    fn counts(&self) -> Vec<(String, c_long)> {
        let text = self.text("fascicle_emulator_counts");
        let line = |line: &str| {
            let (symbol, count) = line.split_once(' ').unwrap();
            (symbol.to_string(), count.parse().unwrap())
        };
        text.lines().map(line).collect()
    }

    fn live(&self) -> c_long {
        let live: unsafe extern "C" fn(*const c_char) -> c_long =
            self.symbol("fascicle_emulator_live");
        // SAFETY: null asks for all kinds.
        unsafe { live(std::ptr::null()) }
    }

    /// Live objects of each kind, as `kind count`.
    fn kinds(&self) -> Vec<String> {
        let text = self.text("fascicle_emulator_live_report");
        text.lines().map(str::to_string).collect()
    }
}

/// A bit of everything: memory, copies, kernels, GEMMs, streams, events, a collective.
fn work(open: Open) -> Result<()> {
    let device = Device::new(open(0)?)?;
    let stream = device.create_stream(StreamKind::Communication, "collectives")?;
    let group = join(&device)?;
    let a = Tensor::from_f64(&device, DType::F32, &[4, 4], &[0.5; 16])?;
    let b = ops::matmul(&a, &a, ops::Transpose::None)?;
    group.all_reduce(&stream, &b, ReduceOp::Sum)?;
    let c = ops::add(&a, &b)?;
    assert_eq!(c.to_f64()?, [1.5; 16]);
    copy_locked(&device)?;
    device.compute().record()?.time_us().map(drop)
}

/// There and back, in pages of the host's that are locked.
fn copy_locked(device: &Device) -> Result<()> {
    let mut block = hal::HostBlock::zeros(LOCKED_BYTES).expect("a small block");
    block.lock(&**device.hal())?;
    assert!(block.is_locked());
    block.fill(3);
    let copy = Tensor::zeros(device, DType::U32, &[LOCKED_BYTES / 4])?;
    copy.upload_bytes_on(&device.compute(), &block)?;
    block.fill(0);
    copy.download_on(&device.compute(), &mut block)?;
    assert!(block.iter().all(|&byte| byte == 3));
    Ok(())
}

fn join(device: &Device) -> Result<Communicator> {
    let join = Join {
        id: GroupId(device.hal().create_group()?.0),
        label: "alone".into(),
        rank: 0,
        members: vec![0],
        timeout: Duration::from_secs(5),
        abort: Default::default(),
    };
    Communicator::join(device, join, None)
}

/// Calls whose failure leaves something behind: those that release it, those that query whether it is still in use, and
/// collectives, because peers may still access the memory of one that failed.
fn leaves_behind(symbol: &str) -> bool {
    let words = [
        "Destroy",
        "Free",
        "Unload",
        "Release",
        "Unregister",
        "Abort",
        "Finalize",
        "Query",
        "AllReduce",
        "AsyncError",
        "GroupStart",
        "GroupEnd",
    ];
    words.iter().any(|word| symbol.contains(word))
}

// One test for both vendors: which call fails is a setting of the whole process.
#[test]
fn each_call_fails_well() {
    if !emulator::is_required("emulator") {
        eprintln!(
            "skipped each_call_fails_well: FASCICLE_REQUIRE does not name emulator; ci/emulator.sh runs it"
        );
        return;
    }
    let Some(folder) = emulator::for_test("each_call_fails_well") else {
        return;
    };
    for vendor in ["CUDA", "ROCM"] {
        // SAFETY: the only test of this program, before anything else has started.
        unsafe {
            std::env::set_var(format!("FASCICLE_{vendor}_PATH"), &folder);
            std::env::set_var(
                format!("FASCICLE_{vendor}_OBJECT"),
                folder.join(emulator::IMAGE),
            );
        }
    }
    walk(
        &Emulator::open(&folder, "libfascicle_emulator_cuda.so"),
        CUDA,
    );
    walk(
        &Emulator::open(&folder, "libfascicle_emulator_hip.so"),
        ROCM,
    );
}

/// Calls that bind a thread to its device, which a query needs too. How often the work polls depends on time, so the last
/// of the calls that were counted may belong to the query for memory that is being freed.
fn binds_for_a_query(symbol: &str, nth: c_long) -> bool {
    nth > 1 && ["cuCtxSetCurrent", "hipSetDevice"].contains(&symbol)
}

/// Lets the first and the last call of each function fail.
fn walk(emulator: &Emulator, open: Open) {
    let count_pinned = || {
        let counts = emulator.counts().into_iter();
        let pinned =
            counts.filter(|(symbol, _)| ["cuMemHostAlloc", "hipHostMalloc"].contains(&&symbol[..]));
        pinned.map(|(_, count)| count).sum::<c_long>()
    };
    emulator.reset();
    let device = Device::new(open(0).expect("a device")).expect("a device");
    copy_locked(&device).expect("copies without failures");
    assert_eq!(
        count_pinned(),
        0,
        "blocks between locked pages and the device"
    );
    drop(device);
    work(open).expect("the work without failures");
    emulator.reset();
    work(open).expect("the work without failures");
    let counts = emulator.counts();
    assert!(
        counts.len() > 45,
        "the work makes {} different calls",
        counts.len()
    );
    let (mut told, mut problems) = (0, Vec::new());
    for (symbol, count) in &counts {
        for nth in [1, *count] {
            match one(emulator, open, symbol, nth) {
                Ok(failed) => told += usize::from(failed),
                Err(problem) => problems.push(format!("{symbol} failing at call {nth}: {problem}")),
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(
        told > counts.len(),
        "{told} failures were told, of {} calls twice",
        counts.len()
    );
}

/// Lets one call fail. Returns whether the work reported it, or what the work did wrong.
fn one(
    emulator: &Emulator,
    open: Open,
    symbol: &str,
    nth: c_long,
) -> std::result::Result<bool, String> {
    let (live, kinds) = (emulator.live(), emulator.kinds());
    emulator.reset();
    emulator.fail(symbol, nth);
    let start = Instant::now();
    let outcome = catch_unwind(|| work(open)).map_err(|_| "a panic")?;
    if start.elapsed() > Duration::from_secs(20) {
        return Err(format!("it took {:?}", start.elapsed()));
    }
    let may_stay = leaves_behind(symbol) || binds_for_a_query(symbol, nth);
    if !may_stay && emulator.live() != live {
        let mut now = emulator.kinds();
        now.retain(|kind| !kinds.contains(kind));
        return Err(format!(
            "{} objects stay: now {}, before {} ({outcome:?})",
            emulator.live() - live,
            now.join(", "),
            kinds.join(", ")
        ));
    }
    let Err(error) = outcome else {
        return Ok(false);
    };
    let text = error.to_string();
    // An error has the function's plain name, whichever version of the function was called.
    let plain = symbol.trim_end_matches("_v2").trim_end_matches("R0600");
    let named = text.contains(plain) || text.contains("out of memory");
    if named {
        Ok(true)
    } else {
        Err(format!("the error does not name it: {text}"))
    }
}
