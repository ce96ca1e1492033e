//! Kernels run with late copies, checked alignment, and blocks and warps in an order of the seed's: kernels that rely
//! on more than a device promises fail. One test: the seed is a setting of the process.

use libloading::Library;
use std::{
    ffi::{CStr, c_char, c_int, c_void},
    path::Path,
    process::Command,
};

const STUCK: c_int = 3;
const MISALIGNED: c_int = 4;
const OVERRUN: c_int = 5;

#[repr(C)]
struct Arguments {
    from: *const f32,
    to: *mut f32,
}

type Launch =
    unsafe extern "C" fn(*const c_char, *const u32, *const u32, u32, *const c_void, c_int) -> c_int;

/// Compiles the faulty kernels with the machinery that runs the real ones.
fn library(folder: &Path) -> Library {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_string());
    let to = folder.join("faulty.so");
    let sources = ["barriers", "block", "copies", "fiber", "launch", "products"]
        .map(|name| root.join(format!("simt/{name}.cpp")));
    let kernels = ["faulty", "faulty_groups"].map(|name| root.join(format!("tests/{name}.cpp")));
    let status = Command::new(compiler)
        .args([
            "-std=c++20",
            "-O1",
            "-fPIC",
            "-shared",
            "-pthread",
            "-DFASCICLE_WARP=32",
        ])
        .arg(format!("-I{}", root.join("simt").display()))
        .arg(format!("-I{}", root.join("../gpu/kernels").display()))
        .args(sources)
        .args(kernels)
        .arg("-o")
        .arg(&to)
        .status();
    assert!(status.is_ok_and(|status| status.success()));
    // SAFETY: the library's initialisers only fill a table.
    unsafe { Library::new(to) }.expect("the library that was just built")
}

/// Runs a kernel of `blocks` x `threads`. Returns its status and what it wrote.
fn run(library: &Library, name: &CStr, blocks: u32, threads: u32) -> (c_int, Vec<f32>) {
    run_with_shared(library, name, (blocks, threads), 4096)
}

fn run_with_shared(
    library: &Library,
    name: &CStr,
    (blocks, threads): (u32, u32),
    shared_bytes: u32,
) -> (c_int, Vec<f32>) {
    #[repr(align(16))]
    struct Aligned([f32; 256]);
    let (from, mut to) = (Aligned([2.0; 256]), vec![0f32; 1024]);
    let arguments = Arguments {
        from: from.0.as_ptr(),
        to: to.as_mut_ptr(),
    };
    let (grid, block) = ([blocks, 1, 1], [threads, 1, 1]);
    // SAFETY: the type is that of the declaration in `launch.cpp`, and the kernels stay within the memory.
    let status = unsafe {
        let launch = library
            .get::<Launch>(b"fascicle_simt_launch")
            .expect("a symbol");
        let arguments = std::ptr::from_ref(&arguments).cast();
        launch(
            name.as_ptr(),
            grid.as_ptr(),
            block.as_ptr(),
            shared_bytes,
            arguments,
            32,
        )
    };
    (status, to)
}

#[test]
fn faulty_kernels_fail() {
    if Command::new(std::env::var("CXX").unwrap_or_else(|_| "c++".to_string()))
        .arg("--version")
        .output()
        .is_err()
    {
        return eprintln!("skipped: no C++ compiler");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let library = library(folder.path());
    let (status, copied) = run(&library, c"right_copy", 1, 32);
    assert_eq!((status, &copied[..32]), (0, &[2f32; 32][..]));
    let (status, early) = run(&library, c"faulty_copy", 1, 32);
    assert_eq!(status, 0);
    assert!(early[..32].iter().all(|value| value.is_nan()), "{early:?}");
    assert_eq!(run(&library, c"faulty_alignment", 1, 1).0, MISALIGNED);
    assert_eq!(run(&library, c"right_copy", 1, 32).0, 0, "the next launch");
    assert_eq!(run(&library, c"faulty_shared", 1, 32).0, OVERRUN);
    let (_, last) = run(&library, c"faulty_blocks", 100, 1);
    assert_ne!(last[0], 99.0, "the last block by number ran last");
    let (status, values) = run(&library, c"faulty_barrier", 1, 256);
    assert_eq!(status, 0);
    assert!(
        values[32..256].iter().any(|value| value.is_nan()),
        "all warps ran in their order"
    );
    faulty_groups_fail(&library);
}

/// Kernels of warpgroups: each fault shows, and none hangs.
fn faulty_groups_fail(library: &Library) {
    const GROUP: u32 = 128;
    // A tile of 64 x 64, and what it takes to align it.
    let run =
        |name, groups: u32| run_with_shared(library, name, (1, groups * GROUP), 1024 + 64 * 64 * 2);
    let written = |name, groups| {
        let (status, values) = run(name, groups);
        assert_eq!(status, 0, "{name:?}");
        values[..GROUP as usize].to_vec()
    };
    assert_eq!(written(c"right_product", 1), [64f32; GROUP as usize]);
    for early in [c"faulty_sum", c"faulty_wait"] {
        let values = written(early, 1);
        assert!(values.iter().all(|value| value.is_nan()), "{values:?}");
    }
    let changed = written(c"faulty_tile", 1);
    assert!(changed.iter().any(|value| *value != 64.0), "{changed:?}");
    for alive in [
        (c"right_phase", 1),
        (c"right_turns", 2),
        (c"right_publication", 1),
    ] {
        assert_eq!(written(alive.0, alive.1), [1f32; GROUP as usize]);
    }
    assert_eq!(run(c"faulty_place", 1).0, MISALIGNED);
    for stuck in [
        c"faulty_write",
        c"faulty_order",
        c"faulty_end",
        c"faulty_phase",
        c"faulty_init",
        c"faulty_meeting",
        c"faulty_publication",
    ] {
        assert_eq!(run(stuck, 1).0, STUCK, "{stuck:?}");
    }
    assert_eq!(run(c"faulty_turns", 2).0, STUCK);
    assert_eq!(
        written(c"right_product", 1)[0],
        64.0,
        "after one that was stuck"
    );
}
