//! A workspace belongs to a GEMM until the GEMM is done: a use or a free that comes too early is detected.

use crate::{
    common::{Gate, Handle, c},
    matmul::{Matmul, Matrix, Places, WORKSPACE},
    vendor::vendors,
};
use std::{ffi::c_void, ptr};

#[test]
fn a_workspace_freed_too_early_is_written_late() {
    let Some(cuda) = vendors().first() else {
        return;
    };
    let _alone = cuda.alone(0);
    let mut matmul = Matmul::new(cuda, [Matrix(0, 4, 4, 4); 4], [false; 2], [1.0, 0.0]);
    assert_eq!(matmul.choose(), (0, 1, WORKSPACE));
    let (a, workspace, gate) = (
        cuda.upload(&[1f32; 32]),
        cuda.allocate(WORKSPACE),
        Gate::default(),
    );
    let stream = stream(&cuda.runtime);
    matmul.stream = stream;
    let held = c!(cuda.runtime, cuLaunchHostFunc(stream => Handle, Gate::hold => extern "C" fn(*mut c_void),
        (&raw const gate).cast_mut().cast() => *mut c_void));
    assert_eq!(held, 0);
    assert_eq!(
        matmul.run(Places {
            a,
            b: a,
            c: 0,
            d: a + 64,
            workspace,
            bytes: WORKSPACE
        }),
        0
    );
    cuda.free(workspace);
    gate.open();
    assert_eq!(c!(cuda.runtime, cuStreamSynchronize(stream => Handle)), 0);
    let before = cuda.misuses();
    // Freed memory is checked once more has been freed after it than the quarantine holds.
    let large = cuda.allocate(65 << 20);
    cuda.free(large);
    assert!(cuda.misuses() > before);
    cuda.free(a);
    assert_eq!(c!(cuda.runtime, cuStreamDestroy_v2(stream => Handle)), 0);
    matmul.destroy();
}

#[test]
fn a_workspace_that_something_else_writes_is_noticed() {
    let Some(cuda) = vendors().first() else {
        return;
    };
    let _alone = cuda.alone(7);
    let mut matmul = Matmul::new(cuda, [Matrix(0, 768, 768, 768); 4], [false; 2], [1.0, 0.0]);
    assert_eq!(matmul.choose(), (0, 1, WORKSPACE));
    let (a, d) = (
        cuda.upload(&vec![1f32; 768 * 768]),
        cuda.allocate(4 * 768 * 768),
    );
    let workspace = cuda.allocate(WORKSPACE);
    let ours = stream(&cuda.runtime);
    matmul.stream = ours;
    let before = cuda.misuses();
    // A GEMM may be over before the other stream's turn comes.
    for _ in 0..100 {
        if cuda.misuses() > before {
            break;
        }
        // Streams share hardware queues, and behind the GEMM in its own queue nothing overtakes it: another one each time.
        let other = stream(&cuda.runtime);
        assert_eq!(
            matmul.run(Places {
                a,
                b: a,
                c: 0,
                d,
                workspace,
                bytes: WORKSPACE
            }),
            0
        );
        while c!(cuda.runtime, cuStreamQuery(ours => Handle)) == 600 {
            c!(cuda.runtime, cuMemsetD8Async(workspace => u64, 1 => u8, 64 => usize, other => Handle));
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    assert_eq!(cuda.misuses(), before + 1);
    assert_ne!(
        c!(cuda.runtime, cuStreamSynchronize(ours => Handle)),
        0,
        "the context has a fault"
    );
}

fn stream(runtime: &libloading::Library) -> Handle {
    let mut stream: Handle = ptr::null_mut();
    assert_eq!(
        c!(runtime, cuStreamCreate(&mut stream => *mut Handle, 1 => u32)),
        0
    );
    stream
}
