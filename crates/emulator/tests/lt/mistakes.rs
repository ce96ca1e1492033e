//! Refusals: with a report if the caller made a mistake, without one if there is merely no algorithm.

use crate::{
    common::Handle,
    matmul::{Matmul, Matrix, Places, WORKSPACE},
    vendor::{Vendor, lt, vendors},
};
use std::ffi::CString;

/// Runs a call that must be reported as a mistake, and returns its result.
fn reported<T: std::fmt::Debug>(vendor: &Vendor, call: impl FnOnce() -> T) -> T {
    let before = vendor.misuses();
    let result = call();
    assert!(vendor.misuses() > before, "{result:?} without a report");
    result
}

const SQUARE: Matrix = Matrix(0, 16, 16, 16);

/// A GEMM of 16 x 16 matrices in memory of its own.
fn square(vendor: &Vendor) -> (Matmul<'_>, Places) {
    let matmul = Matmul::new(vendor, [SQUARE; 4], [false; 2], [1.0, 1.0]);
    let [a, b, d] = [1f32, 2.0, 3.0].map(|value| vendor.upload(&[value; 256]));
    (
        matmul,
        Places {
            a,
            b,
            c: d,
            d,
            workspace: vendor.allocate(WORKSPACE + 256),
            bytes: WORKSPACE,
        },
    )
}

fn discard(matmul: Matmul<'_>, at: Places) {
    let vendor = matmul.vendor;
    // CUDA's frees do not wait.
    vendor.download::<f32>(at.d, 1);
    matmul.destroy();
    [at.a, at.b, at.d, at.workspace]
        .into_iter()
        .for_each(|address| vendor.free(address));
}

#[test]
fn wrong_calls_are_reported() {
    for vendor in vendors() {
        let _alone = vendor.alone(2);
        let (mut matmul, at) = square(vendor);
        let (invalid, unsupported) = (vendor.numbers.invalid, vendor.numbers.unsupported);
        assert_eq!(reported(vendor, || matmul.run(at)), invalid, "no algorithm");
        assert_eq!(matmul.choose(), (0, 1, WORKSPACE));
        assert_eq!(matmul.run(at), 0);
        let wrong = |status, at, what: &str| {
            assert_eq!(reported(vendor, || matmul.run(at)), status, "{what}")
        };
        wrong(
            invalid,
            Places { a: at.a + 16, ..at },
            "a ends after its memory",
        );
        wrong(invalid, Places { d: 0, ..at }, "no d");
        wrong(
            invalid,
            Places {
                bytes: WORKSPACE - 1,
                ..at
            },
            "a small workspace",
        );
        wrong(invalid, Places { workspace: 0, ..at }, "no workspace");
        wrong(
            invalid,
            Places {
                workspace: at.workspace + 16,
                ..at
            },
            "a workspace at 16",
        );
        wrong(
            invalid,
            Places {
                bytes: WORKSPACE + 257,
                ..at
            },
            "a workspace beyond its memory",
        );
        let large = vendor.upload(&[0f32; 300]);
        wrong(unsupported, Places { b: large + 8, ..at }, "b at 8");
        vendor.free(large);
        wrong(invalid, Places { b: large, ..at }, "b is freed");
        other_matmuls(matmul, at);
    }
}

/// An algorithm fits only the GEMM that it was chosen for.
fn other_matmuls(mut matmul: Matmul<'_>, at: Places) {
    let (vendor, invalid) = (matmul.vendor, matmul.vendor.numbers.invalid);
    matmul.say(vendor.numbers.epilogue, 32u32);
    assert_eq!(
        reported(vendor, || matmul.run(at)),
        invalid,
        "chosen without GELU"
    );
    assert_eq!(matmul.choose(), (0, 1, WORKSPACE));
    assert_eq!(matmul.run(at), 0);
    matmul.say(vendor.numbers.epilogue, 4u32);
    assert_eq!(matmul.choose(), (0, 1, WORKSPACE));
    assert_eq!(reported(vendor, || matmul.run(at)), invalid, "no bias");
    matmul.say(vendor.numbers.epilogue, 160u32);
    for leading in [0i64, 8, 17] {
        matmul.say(vendor.numbers.aux_leading, leading);
        assert_eq!(
            reported(vendor, || matmul.choose()),
            (invalid, 0, 0),
            "aux with {leading}"
        );
    }
    discard(matmul, at);
}

#[test]
fn what_there_is_not_is_not_found() {
    for vendor in vendors() {
        let _alone = vendor.alone(3);
        let (before, none) = (vendor.misuses(), (vendor.numbers.unsupported, 0, 0));
        for kinds in [
            [1, 1, 1, 1],
            [0, 14, 0, 0],
            [14, 14, 2, 2],
            [0, 0, 14, 14],
            [14, 14, 14, 0],
        ] {
            let matrices = kinds.map(|kind| Matrix(kind, 16, 16, 16));
            let mut matmul = Matmul::new(vendor, matrices, [false; 2], [1.0, 0.0]);
            assert_eq!(matmul.choose(), none, "types {kinds:?}");
            matmul.destroy();
        }
        let (mut matmul, at) = square(vendor);
        for (attribute, epilogue) in [(vendor.numbers.bias, 4u32), (vendor.numbers.aux, 192)] {
            matmul.say(vendor.numbers.epilogue, epilogue);
            matmul.say(vendor.numbers.aux_leading, 16i64);
            matmul.say(attribute, at.a + 8);
            assert_eq!(
                matmul.choose(),
                none,
                "epilogue {epilogue} with an address at 8"
            );
        }
        matmul.say(vendor.numbers.epilogue, 2u32);
        assert_eq!(matmul.choose(), none, "ReLU");
        if vendor.is_cuda() {
            matmul.say(vendor.numbers.epilogue, 1u32);
            assert_eq!(matmul.prefer(6, 8u32), 0);
            assert_eq!(matmul.choose(), none, "an alignment of 8");
        }
        discard(matmul, at);
        assert_eq!(vendor.misuses(), before);
    }
}

#[test]
fn descriptors_contradict_or_are_gone() {
    for vendor in vendors() {
        let _alone = vendor.alone(4);
        let invalid = vendor.numbers.invalid;
        let matrices = [SQUARE, Matrix(0, 8, 16, 16), SQUARE, SQUARE];
        let mut matmul = Matmul::new(vendor, matrices, [false; 2], [1.0, 0.0]);
        assert_eq!(
            reported(vendor, || matmul.choose()),
            (invalid, 0, 0),
            "16 columns, 8 rows"
        );
        assert_eq!(
            reported(vendor, || matmul.set(vendor.numbers.epilogue, 1u64)),
            invalid,
            "8 bytes for 4"
        );
        assert_eq!(
            reported(vendor, || matmul.set(99, 1u32)),
            vendor.numbers.unsupported
        );
        matmul.destroy();
        let (mut matmul, at) = square(vendor);
        assert_eq!(matmul.choose(), (0, 1, WORKSPACE));
        vendor.enter(5);
        assert_ne!(reported(vendor, || matmul.run(at)), 0, "another device");
        vendor.enter(4);
        let destroyed = matmul.layouts[1];
        assert_eq!(lt!(vendor, "MatrixLayoutDestroy"(destroyed => Handle)), 0);
        assert_eq!(
            reported(vendor, || matmul.run(at)),
            invalid,
            "a destroyed layout"
        );
        assert_eq!(
            reported(
                vendor,
                || lt!(vendor, "MatrixLayoutDestroy"(destroyed => Handle))
            ),
            invalid
        );
        matmul.layouts[1] = {
            let mut layout: Handle = std::ptr::null_mut();
            let status = lt!(vendor, "MatrixLayoutCreate"(
                &mut layout => *mut Handle, 0 => i32, 16 => u64, 16 => u64, 16 => i64));
            assert_eq!(status, 0);
            layout
        };
        assert_eq!(matmul.run(at), 0, "another layout that says the same");
        discard(matmul, at);
    }
}

#[test]
fn calls_are_counted_told_to_fail_and_leave_nothing() {
    for vendor in vendors() {
        let _alone = vendor.alone(6);
        let (matmul, at) = square(vendor);
        discard(matmul, at);
        let count = || [c"descriptors", c"blas", c"allocations"].map(|kind| vendor.live(kind));
        let before = count();
        let (mut matmul, at) = square(vendor);
        assert_eq!(count(), [before[0] + 6, before[1] + 1, before[2] + 4]);
        assert_eq!(matmul.choose(), (0, 1, WORKSPACE));
        let name = |end: &str| CString::new(format!("{}{end}", vendor.numbers.prefix)).unwrap();
        let calls = vendor.calls(&name("Matmul"));
        vendor.fail(&name("Matmul"), 14);
        assert_eq!(matmul.run(at), 14);
        assert_eq!(matmul.run(at), 0);
        assert_eq!(vendor.calls(&name("Matmul")), calls + 2);
        assert_eq!(vendor.download::<f32>(at.d, 1), [35.0], "3 and once 16 x 2");
        discard(matmul, at);
        assert_eq!(count(), before);
    }
}
