//! Streams that are delayed at random reveal a missing wait. One test: the delay is a setting of the process.

mod common;

use common::{Handle, Nvidia, c, nvidia};

const ROUNDS: usize = 60;

/// One stream fills memory, another copies it. Returns how often the copy came too early.
fn too_early(nvidia: &Nvidia, waits: bool) -> usize {
    let (first, second, event) = (nvidia.stream(), nvidia.stream(), nvidia.event());
    let (from, to) = (nvidia.upload(&[0u32]), nvidia.upload(&[0u32]));
    let mut early = 0;
    for round in 1..=ROUNDS as u32 {
        assert_eq!(
            c!(nvidia.cuda, cuMemsetD32Async(from => u64, round => u32, 1 => usize, first => Handle)),
            0
        );
        assert_eq!(
            c!(nvidia.cuda, cuEventRecord(event => Handle, first => Handle)),
            0
        );
        if waits {
            assert_eq!(
                c!(nvidia.cuda, cuStreamWaitEvent(second => Handle, event => Handle, 0 => u32)),
                0
            );
        }
        assert_eq!(
            c!(nvidia.cuda, cuMemcpyDtoDAsync_v2(to => u64, from => u64, 4 => usize, second => Handle)),
            0
        );
        assert_eq!(
            (nvidia.synchronize(first), nvidia.synchronize(second)),
            (0, 0)
        );
        early += usize::from(nvidia.download::<u32>(to, 1) != [round]);
    }
    early
}

#[test]
fn a_missing_wait_shows() {
    // The race would end the device before its numbers show it.
    for (name, value) in [
        ("FASCICLE_EMULATOR_DELAY", "7:3000"),
        ("FASCICLE_EMULATOR_RACES", "0"),
    ] {
        // SAFETY: this program has one test, and no other thread reads the environment yet.
        unsafe { std::env::set_var(name, value) };
    }
    let Some(nvidia) = nvidia() else { return };
    nvidia.enter(0);
    assert_eq!(too_early(nvidia, true), 0);
    let early = too_early(nvidia, false);
    assert!(
        early > 0,
        "{ROUNDS} rounds without a wait, and all came in time"
    );
}
