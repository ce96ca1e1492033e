//! cuBLASLt's and hipBLASLt's GEMMs with epilogues against a plain loop, their algorithms, and callers' mistakes.

mod algorithms;
#[path = "../common/mod.rs"]
mod common;
mod element;
mod matmul;
mod mistakes;
mod vendor;
mod workspace;

use common::{Handle, c, folder, open};
use element::Element;
use fascicle_emulator::{Cuda, Hip};
use half::{bf16, f16};
use matmul::{Matmul, Matrix, Places, WORKSPACE};
use std::ptr;
use vendor::{Vendor, vendors};

const M: usize = 37;
const N: usize = 19;
const K: usize = 23;
/// Leading dimensions of the other matrices have room to spare; that of aux is a multiple of 8.
const AUX: usize = 40;

/// Numbers whose products and sums are exact in f32.
fn numbers(count: usize, step: usize) -> Vec<f64> {
    (0..count)
        .map(|index| ((index * step) % 7) as f64 / 8.0 - 0.375)
        .collect()
}

fn upload<T: Element>(vendor: &Vendor, values: &[f64]) -> u64 {
    vendor.upload(&values.iter().map(|&value| T::of(value)).collect::<Vec<T>>())
}

fn values<T: Element>(vendor: &Vendor, address: u64, count: usize) -> Vec<f64> {
    vendor
        .download::<T>(address, count)
        .into_iter()
        .map(T::value)
        .collect()
}

/// Whether a number is what another becomes when it is rounded once.
fn rounded<T: Element>(got: f64, exact: f64) -> bool {
    (got - exact).abs() <= exact.abs().log2().floor().exp2() * T::ROUNDING + 1e-6
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x.powi(3))).tanh())
}

fn gelu_slope(x: f64) -> f64 {
    (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5
}

/// One epilogue with one type of inputs and one of outputs.
fn epilogue_agrees<I: Element, O: Element>(
    vendor: &Vendor,
    epilogue: u32,
    transposed: [bool; 2],
    in_place: bool,
) {
    let (has_bias, has_aux) = (epilogue & 4 != 0, epilogue & 128 != 0);
    let dimensions =
        |is: bool, rows: usize, columns: usize| if is { (columns, rows) } else { (rows, columns) };
    let ((rows_a, columns_a), (rows_b, columns_b)) = (
        dimensions(transposed[0], M, K),
        dimensions(transposed[1], K, N),
    );
    let (lda, ldb, ldc, ldd) = (
        rows_a + 3,
        rows_b + 1,
        M + if in_place { 2 } else { 5 },
        M + 2,
    );
    let matrix = |kind, rows: usize, columns: usize, leading: usize| {
        Matrix(kind, rows as u64, columns as u64, leading as i64)
    };
    let matrices = [
        matrix(I::KIND, rows_a, columns_a, lda),
        matrix(I::KIND, rows_b, columns_b, ldb),
        matrix(O::KIND, M, N, ldc),
        matrix(O::KIND, M, N, ldd),
    ];
    let (a, b, c) = (
        numbers(lda * columns_a, 3),
        numbers(ldb * columns_b, 5),
        numbers(ldc * N, 4),
    );
    let (bias, aux) = (numbers(M, 2), numbers(AUX * N, 6));
    let mut matmul = Matmul::new(
        vendor,
        matrices,
        transposed,
        [2.5, if in_place { 0.5 } else { -1.0 }],
    );
    let at_c = upload::<O>(vendor, &c);
    let at_d = if in_place {
        at_c
    } else {
        upload::<O>(vendor, &vec![f64::NAN; ldd * N])
    };
    // A bias is of d's type where nothing is said.
    let own_bias = epilogue == 36;
    let at_bias = if own_bias {
        upload::<O>(vendor, &bias)
    } else {
        upload::<f32>(vendor, &bias)
    };
    let at_aux = upload::<O>(vendor, &aux);
    matmul.say(vendor.numbers.epilogue, epilogue);
    if has_bias {
        matmul.say(vendor.numbers.bias, at_bias);
    }
    if has_bias && !own_bias {
        matmul.say(vendor.numbers.bias_type, 0i32);
    }
    if has_aux {
        matmul.say(vendor.numbers.aux, at_aux);
        matmul.say(vendor.numbers.aux_leading, AUX as i64);
    }
    assert_eq!(matmul.choose(), (0, 1, WORKSPACE));
    let (at_a, at_b, workspace) = (
        upload::<I>(vendor, &a),
        upload::<I>(vendor, &b),
        vendor.allocate(WORKSPACE),
    );
    let at = Places {
        a: at_a,
        b: at_b,
        c: at_c,
        d: at_d,
        workspace,
        bytes: WORKSPACE,
    };
    assert_eq!(matmul.run(at), 0);
    let (got, got_aux) = (
        values::<O>(vendor, at_d, ldd * N),
        values::<O>(vendor, at_aux, AUX * N),
    );
    let at = |x: &[f64], ld: usize, t: bool, i: usize, j: usize| {
        if t { x[j + i * ld] } else { x[i + j * ld] }
    };
    for (i, j) in (0..N).flat_map(|j| (0..M).map(move |i| (i, j))) {
        let sum: f64 = (0..K)
            .map(|p| at(&a, lda, transposed[0], i, p) * at(&b, ldb, transposed[1], p, j))
            .sum();
        let old = f64::from(matmul.scalars[1]) * O::of(c[i + j * ldc]).value();
        let sum = 2.5 * sum + old + if has_bias { bias[i] } else { 0.0 };
        let want = match epilogue {
            1 | 4 => sum,
            192 => sum * gelu_slope(O::of(aux[i + j * AUX]).value()),
            _ => gelu(sum),
        };
        let place = format!(
            "epilogue {epilogue} of {} at {i}, {j}",
            vendor.numbers.prefix
        );
        assert!(
            rounded::<O>(got[i + j * ldd], want),
            "{place}: {} for {want}",
            got[i + j * ldd]
        );
        let left = if has_aux && epilogue != 192 {
            sum
        } else {
            O::of(aux[i + j * AUX]).value()
        };
        assert!(rounded::<O>(got_aux[i + j * AUX], left), "aux, {place}");
    }
    matmul.destroy();
    let places = [at_a, at_b, at_c, at_bias, at_aux, workspace];
    places
        .into_iter()
        .chain((!in_place).then_some(at_d))
        .for_each(|address| vendor.free(address));
}

#[test]
fn every_epilogue_agrees_with_a_plain_loop() {
    for vendor in vendors() {
        let _alone = vendor.alone(0);
        let before = vendor.misuses();
        for (index, epilogue) in [1, 4, 32, 36, 160, 164, 192].into_iter().enumerate() {
            let transposed = [index & 1 != 0, index & 2 != 0];
            epilogue_agrees::<f32, f32>(vendor, epilogue, transposed, true);
            epilogue_agrees::<bf16, bf16>(vendor, epilogue, transposed, false);
            epilogue_agrees::<bf16, f32>(vendor, epilogue, transposed, false);
            epilogue_agrees::<f16, f16>(vendor, epilogue, transposed, true);
        }
        assert_eq!(vendor.misuses(), before);
    }
}

#[test]
fn batches_go_from_stride_to_stride() {
    for vendor in vendors() {
        let _alone = vendor.alone(1);
        let (batch, a, b) = (3i32, numbers(3 * 20, 3), numbers(3 * 20, 5));
        let matrices = [
            Matrix(0, 4, 4, 4),
            Matrix(0, 4, 4, 4),
            Matrix(0, 4, 4, 4),
            Matrix(0, 4, 4, 4),
        ];
        // c is not read: its address is none.
        let mut matmul = Matmul::new(vendor, matrices, [false; 2], [1.0, 0.0]);
        for matrix in 0..4 {
            assert_eq!(matmul.lay_out(matrix, vendor.numbers.batch, batch), 0);
            assert_eq!(
                matmul.lay_out(
                    matrix,
                    vendor.numbers.stride,
                    if matrix == 1 { 0i64 } else { 20 }
                ),
                0
            );
        }
        assert_eq!(matmul.prefer(1, 0u64), 0);
        assert_eq!(
            matmul.choose(),
            (0, 1, 0),
            "no workspace where none is allowed"
        );
        let (at_a, at_b, d) = (
            upload::<f32>(vendor, &a),
            upload::<f32>(vendor, &b),
            vendor.upload(&[7f32; 60]),
        );
        assert_eq!(
            matmul.run(Places {
                a: at_a,
                b: at_b,
                c: 0,
                d,
                workspace: 0,
                bytes: 0
            }),
            0
        );
        let got = vendor.download::<f32>(d, 60);
        for (index, &value) in got.iter().enumerate() {
            let (matrix, i, j) = (index / 20, index % 20 % 4, index % 20 / 4);
            let sum: f64 = (0..4)
                .map(|p| a[matrix * 20 + i + 4 * p] * b[(p + 4 * j) % 20])
                .sum();
            assert_eq!(value, if j < 4 { sum as f32 } else { 7.0 }, "{index}");
        }
        matmul.say(vendor.numbers.epilogue, 32u32);
        assert_eq!(
            matmul.choose(),
            (vendor.numbers.unsupported, 0, 0),
            "a batch with GELU"
        );
        matmul.destroy();
        [at_a, at_b, d]
            .into_iter()
            .for_each(|address| vendor.free(address));
    }
}

#[test]
fn each_generation_has_its_library() {
    let Some(folder) = folder(Cuda::V12, Hip::V7_1) else {
        return;
    };
    let (cuda, hip) = (
        open(&folder, "libcublasLt.so.12"),
        open(&folder, "libhipblaslt.so.1"),
    );
    assert_eq!(c!(cuda, cublasLtGetVersion() -> usize), 120_804);
    let (mut handle, mut version): (Handle, i32) = (ptr::null_mut(), 0);
    assert_eq!(c!(hip, hipblasLtCreate(&mut handle => *mut Handle)), 0);
    assert_eq!(
        c!(hip, hipblasLtGetVersion(handle => Handle, &mut version => *mut i32)),
        0
    );
    assert_eq!(version, 100_100);
    assert_eq!(c!(hip, hipblasLtDestroy(handle => Handle)), 0);
}
