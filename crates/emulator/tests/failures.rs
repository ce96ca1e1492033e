//! Injected failures: each call of a sequence fails in turn, and the test checks what is left alive. One test in this
//! program, because the counts are the process's.

mod common;

use common::{Handle, c, nvidia};
use std::{
    ffi::{CStr, CString, c_char},
    ptr,
};

/// The calls of the sequence, in order. The last four release what the others obtained.
const CALLS: [&CStr; 8] = [
    c"cuMemAlloc_v2",
    c"cuStreamCreate",
    c"cuEventCreate",
    c"cuEventRecord",
    c"cuStreamSynchronize",
    c"cuEventDestroy_v2",
    c"cuStreamDestroy_v2",
    c"cuMemFree_v2",
];

/// Runs the sequence as a careful caller would. Returns the first failure, and the outcome of each step.
fn sequence(nvidia: &common::Nvidia) -> i32 {
    let (mut address, mut stream, mut event) = (0u64, ptr::null_mut(), ptr::null_mut());
    let mut first = 0;
    let mut note = |status: i32| {
        if first == 0 {
            first = status;
        }
        status == 0
    };
    if note(c!(nvidia.cuda, cuMemAlloc_v2(&mut address => *mut u64, 64 => usize))) {
        if note(c!(nvidia.cuda, cuStreamCreate(&mut stream => *mut Handle, 1 => u32))) {
            if note(c!(nvidia.cuda, cuEventCreate(&mut event => *mut Handle, 0 => u32))) {
                note(c!(nvidia.cuda, cuEventRecord(event => Handle, stream => Handle)));
                note(c!(nvidia.cuda, cuStreamSynchronize(stream => Handle)));
                note(c!(nvidia.cuda, cuEventDestroy_v2(event => Handle)));
            }
            note(c!(nvidia.cuda, cuStreamDestroy_v2(stream => Handle)));
        }
        note(c!(nvidia.cuda, cuMemFree_v2(address => u64)));
    }
    first
}

fn fail(nvidia: &common::Nvidia, name: &CStr, nth: i64, code: i32) {
    c!(nvidia.cuda, fascicle_emulator_fail(name.as_ptr() => *const c_char, nth => i64, code => i32) -> ());
}

fn calls(nvidia: &common::Nvidia, name: &CStr) -> i64 {
    c!(nvidia.cuda, fascicle_emulator_calls(name.as_ptr() => *const c_char) -> i64)
}

fn all_alive(nvidia: &common::Nvidia) -> i64 {
    c!(nvidia.cuda, fascicle_emulator_live(ptr::null() => *const c_char) -> i64)
}

#[test]
fn each_call_fails_when_told_and_nothing_is_left() {
    let Some(nvidia) = nvidia() else { return };
    nvidia.enter(0);
    let before = all_alive(nvidia);
    assert_eq!(sequence(nvidia), 0);
    assert_eq!(all_alive(nvidia), before);
    for name in CALLS {
        assert_eq!(calls(nvidia, name), 1, "{name:?}");
        fail(nvidia, name, 1, 719);
        assert_eq!(sequence(nvidia), 719, "{name:?}");
        assert_eq!(all_alive(nvidia), before, "after a failure of {name:?}");
        assert_eq!(sequence(nvidia), 0, "one call fails, not the next");
        c!(nvidia.cuda, fascicle_emulator_reset() -> ());
        assert_eq!(sequence(nvidia), 0);
    }
    fail(nvidia, c"cuMemAlloc_v2", 2, -1);
    assert_eq!(
        (sequence(nvidia), sequence(nvidia)),
        (0, 2),
        "the second call, with the code that fits it"
    );
    c!(nvidia.cuda, fascicle_emulator_reset() -> ());
    counts_are_listed(nvidia);
}

fn counts_are_listed(nvidia: &common::Nvidia) {
    assert_eq!(sequence(nvidia), 0);
    let mut text = vec![0u8; 4096];
    let needed =
        c!(nvidia.cuda, fascicle_emulator_counts(text.as_mut_ptr() => *mut u8, 4096 => u64) -> u64);
    text.truncate(needed as usize);
    let lines = CString::new(text)
        .ok()
        .and_then(|text| text.into_string().ok())
        .unwrap_or_default();
    for name in CALLS {
        let line = format!("{} 1", name.to_string_lossy());
        assert!(
            lines.lines().any(|found| found == line),
            "{line} in\n{lines}"
        );
    }
}
