//! The algorithms of one GEMM: which of them a search finds, what each needs, and how long it takes.

use crate::{
    matmul::{Matmul, Matrix, Places, WORKSPACE},
    vendor::{Vendor, vendors},
};
use std::time::{Duration, Instant};

/// What the emulator's algorithms need, in the order of a search.
const NEEDED: [usize; 4] = [WORKSPACE, 0, 4 * WORKSPACE, 0];
const SQUARE: Matrix = Matrix(0, 16, 16, 16);
const PAUSE: Duration = Duration::from_millis(30);

/// A GEMM of 16 x 16 matrices whose workspace may have that many bytes.
fn square(vendor: &Vendor, workspace: usize) -> Matmul<'_> {
    let matmul = Matmul::new(vendor, [SQUARE; 4], [false; 2], [1.0, 0.0]);
    assert_eq!(matmul.prefer(1, workspace as u64), 0);
    matmul
}

fn places(vendor: &Vendor, bytes: usize) -> Places {
    let [a, d] = [vendor.upload(&[1f32; 256]), vendor.upload(&[0f32; 256])];
    Places {
        a,
        b: a,
        c: 0,
        d,
        workspace: vendor.allocate(bytes),
        bytes,
    }
}

fn discard(matmul: Matmul<'_>, at: Places) {
    let vendor = matmul.vendor;
    // CUDA's frees do not wait.
    vendor.download::<f32>(at.d, 1);
    matmul.destroy();
    [at.a, at.d, at.workspace]
        .into_iter()
        .for_each(|address| vendor.free(address));
}

fn workspaces(matmul: &Matmul<'_>, most: usize) -> Vec<usize> {
    let (status, found) = matmul.find(most);
    assert_eq!(status, 0);
    found.into_iter().map(|(_, workspace)| workspace).collect()
}

#[test]
fn a_search_finds_as_many_as_asked_for_and_as_the_workspace_allows() {
    for vendor in vendors() {
        let _alone = vendor.alone(6);
        let large = square(vendor, 32 * WORKSPACE);
        assert_eq!(workspaces(&large, 8), NEEDED);
        assert_eq!(workspaces(&large, 3), NEEDED[..3]);
        large.destroy();
        let small = square(vendor, WORKSPACE);
        assert_eq!(workspaces(&small, 8), [WORKSPACE, 0, 0]);
        small.destroy();
        let none = square(vendor, 0);
        assert_eq!(workspaces(&none, 8), [0, 0]);
        none.destroy();
    }
}

#[test]
fn an_algorithm_needs_its_own_workspace_and_its_own_gemm() {
    for vendor in vendors() {
        let _alone = vendor.alone(6);
        let mut matmul = square(vendor, 32 * WORKSPACE);
        let at = places(vendor, 4 * WORKSPACE);
        for (algo, workspace) in matmul.find(8).1 {
            matmul.algo = algo.clone();
            let before = vendor.misuses();
            assert_eq!(matmul.run(at), 0);
            assert_eq!(vendor.misuses(), before);
            if workspace > 0 {
                let bytes = workspace - 1;
                assert_eq!(matmul.run(Places { bytes, ..at }), vendor.numbers.invalid);
                assert_eq!(
                    vendor.misuses(),
                    before + 1,
                    "a workspace that is too small"
                );
            }
            let mut other = square(vendor, 32 * WORKSPACE);
            other.say(vendor.numbers.epilogue, 32u32);
            other.algo = algo;
            let before = vendor.misuses();
            assert_eq!(other.run(at), vendor.numbers.invalid);
            assert_eq!(vendor.misuses(), before + 1, "found for another GEMM");
            other.destroy();
        }
        discard(matmul, at);
    }
}

#[test]
fn an_algorithm_keeps_the_pace_that_a_test_asks_for() {
    for vendor in vendors() {
        let _alone = vendor.alone(6);
        let mut matmul = square(vendor, 32 * WORKSPACE);
        let at = places(vendor, 4 * WORKSPACE);
        matmul.algo = matmul.find(8).1.swap_remove(1).0;
        vendor.pace(2, PAUSE.as_micros() as i64);
        let start = Instant::now();
        assert_eq!(matmul.run(at), 0);
        assert_eq!(vendor.download::<f32>(at.d, 1), [16.0]);
        assert!(start.elapsed() >= PAUSE);
        vendor.pace(2, 0);
        discard(matmul, at);
    }
}
