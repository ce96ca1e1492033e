//! cuBLAS's and hipBLAS's GEMMs against the plain triple loop.

mod common;

use common::{Handle, c, folder, nvidia, open};
use fascicle_emulator::{Cuda, Hip};
use half::{bf16, f16};
use std::{ffi::c_void, ptr};

/// A case: op(a) is m x k, op(b) is k x n, and all leading dimensions have room to spare.
struct Case {
    m: usize,
    n: usize,
    k: usize,
    transposed: [bool; 2],
}

const CASES: [Case; 5] = [
    Case {
        m: 1,
        n: 1,
        k: 1,
        transposed: [false, false],
    },
    Case {
        m: 37,
        n: 19,
        k: 23,
        transposed: [false, false],
    },
    Case {
        m: 130,
        n: 261,
        k: 70,
        transposed: [false, true],
    },
    Case {
        m: 64,
        n: 33,
        k: 300,
        transposed: [true, false],
    },
    Case {
        m: 5,
        n: 70,
        k: 9,
        transposed: [true, true],
    },
];

/// Small numbers whose products and sums are exact in every type.
fn numbers(count: usize, step: usize) -> Vec<f64> {
    (0..count)
        .map(|index| ((index * step) % 5) as f64 - 2.0)
        .collect()
}

fn expected(
    case: &Case,
    a: &[f64],
    b: &[f64],
    c: &[f64],
    ld: [usize; 3],
    alpha: f64,
    beta: f64,
) -> Vec<f64> {
    let at = |x: &[f64], ld: usize, t: bool, i: usize, j: usize| {
        if t { x[j + i * ld] } else { x[i + j * ld] }
    };
    let mut out = c.to_vec();
    for j in 0..case.n {
        for i in 0..case.m {
            let term =
                |p| at(a, ld[0], case.transposed[0], i, p) * at(b, ld[1], case.transposed[1], p, j);
            let old = if beta == 0.0 {
                0.0
            } else {
                beta * c[i + j * ld[2]]
            };
            out[i + j * ld[2]] = alpha * (0..case.k).map(term).sum::<f64>() + old;
        }
    }
    out
}

fn leading(case: &Case) -> [usize; 3] {
    let rows_a = if case.transposed[0] { case.k } else { case.m };
    let rows_b = if case.transposed[1] { case.n } else { case.k };
    [rows_a + 3, rows_b + 1, case.m + 2]
}

fn sizes(case: &Case, ld: [usize; 3]) -> [usize; 3] {
    let columns_a = if case.transposed[0] { case.m } else { case.k };
    let columns_b = if case.transposed[1] { case.k } else { case.n };
    [ld[0] * columns_a, ld[1] * columns_b, ld[2] * case.n]
}

trait Element: Copy + Default {
    const CUDA: i32;
    fn of(value: f64) -> Self;
    fn value(self) -> f64;
}

macro_rules! element {
    ($kind:ty, $cuda:expr, $of:expr, $value:expr) => {
        impl Element for $kind {
            const CUDA: i32 = $cuda;
            fn of(value: f64) -> Self {
                $of(value)
            }
            fn value(self) -> f64 {
                $value(self)
            }
        }
    };
}
element!(f32, 0, |x| x as f32, f64::from);
element!(f64, 1, |x| x, |x| x);
element!(f16, 2, f16::from_f64, f64::from);
element!(bf16, 14, bf16::from_f64, f64::from);

fn cublas_agrees<I: Element, O: Element>(device: i32, compute: i32, wide: bool) {
    let Some(nvidia) = nvidia() else { return };
    nvidia.enter(device);
    let mut handle: Handle = ptr::null_mut();
    assert_eq!(
        c!(nvidia.cublas, cublasCreate_v2(&mut handle => *mut Handle)),
        0
    );
    for case in &CASES {
        for beta in [0.0, 2.0] {
            let ld = leading(case);
            let [count_a, count_b, count_c] = sizes(case, ld);
            let (a, b) = (numbers(count_a, 3), numbers(count_b, 7));
            let c = if beta == 0.0 {
                vec![f64::NAN; count_c]
            } else {
                numbers(count_c, 4)
            };
            let convert =
                |values: &[f64]| values.iter().map(|&value| I::of(value)).collect::<Vec<I>>();
            let (at_a, at_b) = (nvidia.upload(&convert(&a)), nvidia.upload(&convert(&b)));
            let at_c = nvidia.upload(&c.iter().map(|&value| O::of(value)).collect::<Vec<O>>());
            let (alpha32, beta32, alpha64) = (0.5f32, beta as f32, 0.5f64);
            let alpha = if wide {
                (&raw const alpha64).cast()
            } else {
                (&raw const alpha32).cast::<c_void>()
            };
            let beta_at = if wide {
                (&raw const beta).cast()
            } else {
                (&raw const beta32).cast::<c_void>()
            };
            let [op_a, op_b] = case.transposed.map(i32::from);
            let status = c!(nvidia.cublas, cublasGemmEx(
                handle => Handle, op_a => i32, op_b => i32, case.m as i32 => i32, case.n as i32 => i32, case.k as i32 => i32,
                alpha => *const c_void, at_a => u64, I::CUDA => i32, ld[0] as i32 => i32,
                at_b => u64, I::CUDA => i32, ld[1] as i32 => i32,
                beta_at => *const c_void, at_c => u64, O::CUDA => i32, ld[2] as i32 => i32, compute => i32, -1 => i32));
            assert_eq!(status, 0);
            let got: Vec<f64> = nvidia
                .download::<O>(at_c, count_c)
                .into_iter()
                .map(O::value)
                .collect();
            let want: Vec<f64> = expected(case, &a, &b, &c, ld, 0.5, beta)
                .into_iter()
                .map(|x| O::of(x).value())
                .collect();
            let same = got
                .iter()
                .zip(&want)
                .all(|(x, y)| x == y || (x.is_nan() && y.is_nan()));
            assert!(same, "{} x {} x {}, beta {beta}", case.m, case.n, case.k);
            assert_eq!(
                [at_a, at_b, at_c].map(|address| nvidia.free(address)),
                [0; 3]
            );
        }
    }
    assert_eq!(c!(nvidia.cublas, cublasDestroy_v2(handle => Handle)), 0);
}

#[test]
fn f32_matmuls() {
    cublas_agrees::<f32, f32>(0, 68, false);
}

#[test]
fn f64_matmuls() {
    cublas_agrees::<f64, f64>(1, 70, true);
}

#[test]
fn f16_matmuls() {
    cublas_agrees::<f16, f16>(2, 68, false);
    cublas_agrees::<f16, f32>(2, 68, false);
}

#[test]
fn bf16_matmuls() {
    cublas_agrees::<bf16, bf16>(3, 68, false);
    cublas_agrees::<bf16, f32>(3, 68, false);
}

#[test]
fn a_matrix_beyond_its_allocation_is_refused() {
    let Some(nvidia) = nvidia() else { return };
    nvidia.enter(4);
    let mut handle: Handle = ptr::null_mut();
    assert_eq!(
        c!(nvidia.cublas, cublasCreate_v2(&mut handle => *mut Handle)),
        0
    );
    let (memory, one) = (nvidia.upload(&[1f32; 16]), 1f32);
    let call = |m: i32, lda: i32| {
        c!(nvidia.cublas, cublasGemmEx(handle => Handle, 0 => i32, 0 => i32, m => i32, 2 => i32, 2 => i32,
            &raw const one => *const f32, memory => u64, 0 => i32, lda => i32, memory => u64, 0 => i32, 2 => i32,
            &raw const one => *const f32, memory => u64, 0 => i32, m => i32, 68 => i32, -1 => i32))
    };
    assert_eq!(call(8, 8), 0);
    assert_eq!(call(9, 9), 7, "18 elements where 16 are");
    assert_eq!(call(4, 3), 7, "a leading dimension of 3 with 4 rows");
    assert_eq!(c!(nvidia.cublas, cublasDestroy_v2(handle => Handle)), 0);
}

/// The type numbers that `hipblasGemmEx` (and `_v2`) take: own (151) or HIP's (0), and the compute type that goes with
/// it.
fn hipblas_gemm(
    hip: Hip,
    runtime: &str,
    blas: &str,
    function: &str,
    types: i32,
    compute: i32,
) -> Option<i32> {
    let folder = folder(Cuda::V13, hip)?;
    let (runtime, blas) = (open(&folder, runtime), open(&folder, blas));
    let (mut memory, mut handle): (Handle, Handle) = (ptr::null_mut(), ptr::null_mut());
    assert_eq!(
        c!(runtime, hipMalloc(&mut memory => *mut Handle, 16 => usize)),
        0
    );
    let (values, one, zero, mut out) = ([1f32, 2.0, 3.0, 4.0], 1f32, 0f32, [0f32; 4]);
    assert_eq!(
        c!(runtime, hipMemcpy(memory => Handle, values.as_ptr() => *const f32, 16 => usize, 1 => i32)),
        0
    );
    assert_eq!(c!(blas, hipblasCreate(&mut handle => *mut Handle)), 0);
    type GemmEx = unsafe extern "C" fn(
        Handle,
        i32,
        i32,
        i32,
        i32,
        i32,
        *const f32,
        Handle,
        i32,
        i32,
        Handle,
        i32,
        i32,
        *const f32,
        Handle,
        i32,
        i32,
        i32,
        i32,
    ) -> i32;
    // SAFETY: this is the function's declaration in every generation; only the enumerations differ.
    let gemm = unsafe { blas.get::<GemmEx>(function) }.ok()?;
    // SAFETY: the matrix of 2 x 2 lies in the 16 bytes at `memory`; the library checks the numbers.
    let status = unsafe {
        gemm(
            handle, 112, 111, 2, 2, 2, &one, memory, types, 2, memory, types, 2, &zero, memory,
            types, 2, compute, 160,
        )
    };
    assert_eq!(
        c!(runtime, hipMemcpy(out.as_mut_ptr() => *mut f32, memory => Handle, 16 => usize, 2 => i32)),
        0
    );
    if status == 0 {
        assert_eq!(out, [5.0, 11.0, 11.0, 25.0]);
    }
    assert_eq!(c!(blas, hipblasDestroy(handle => Handle)), 0);
    assert_eq!(c!(runtime, hipFree(memory => Handle)), 0);
    Some(status)
}

#[test]
fn each_hipblas_takes_the_types_of_its_generation() {
    if folder(Cuda::V13, Hip::V5_7).is_none() {
        return;
    }
    const INVALID_ENUM: Option<i32> = Some(10);
    let old = |function, types, compute| {
        hipblas_gemm(
            Hip::V5_7,
            "libamdhip64.so.5",
            "libhipblas.so.0",
            function,
            types,
            compute,
        )
    };
    assert_eq!(old("hipblasGemmEx", 151, 151), Some(0));
    assert_eq!(old("hipblasGemmEx", 0, 2), INVALID_ENUM);
    assert_eq!(old("hipblasGemmEx_v2", 0, 2), None);
    let middle = |function, types, compute| {
        hipblas_gemm(
            Hip::V6_4,
            "libamdhip64.so.6",
            "libhipblas.so.2",
            function,
            types,
            compute,
        )
    };
    assert_eq!(middle("hipblasGemmEx", 151, 151), Some(0));
    assert_eq!(middle("hipblasGemmEx_v2", 0, 2), Some(0));
    assert_eq!(middle("hipblasGemmEx_v2", 151, 151), INVALID_ENUM);
    let new = |function, types, compute| {
        hipblas_gemm(
            Hip::V7_1,
            "libamdhip64.so.7",
            "libhipblas.so.3",
            function,
            types,
            compute,
        )
    };
    assert_eq!(new("hipblasGemmEx", 0, 2), Some(0));
    assert_eq!(new("hipblasGemmEx", 151, 151), INVALID_ENUM);
    assert_eq!(new("hipblasGemmEx_v2", 0, 2), None);
}
