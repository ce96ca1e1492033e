mod bits;
mod quantised;

use super::*;
use crate::element::{Element, Real};
use hal::{Batch, Epilogue, Matrix, RawSlice};

fn raw<T>(values: &mut [T], dtype: DType) -> RawSlice {
    RawSlice {
        addr: values.as_mut_ptr() as u64,
        len: values.len(),
        dtype,
    }
}

/// Values in [-0.5, 0.5) that differ from position to position.
fn values<T: Element>(len: usize, seed: u64) -> Vec<T> {
    let key = hal::random::Key { seed, sequence: 0 };
    (0..len as u64)
        .map(|i| T::from_acc(T::Acc::of(f64::from(key.uniform(i)) - 0.5)))
        .collect()
}

struct Case {
    sizes: [usize; 3],
    transposed: [bool; 2],
    alpha: f64,
    beta: f64,
    threads: usize,
}

/// The matrices of a case as stored, with each row followed by a few elements that do not belong to it.
struct Stored<T, C> {
    a: Vec<T>,
    b: Vec<T>,
    c: Vec<C>,
    leading: [usize; 3],
}

fn stored<T: Element, C: Element>(case: &Case) -> Stored<T, C> {
    let [m, n, k] = case.sizes;
    let (a_columns, b_columns) = (
        if case.transposed[0] { m } else { k },
        if case.transposed[1] { k } else { n },
    );
    let leading = [a_columns + 3, b_columns + 2, n + 1];
    let c = match case.beta {
        0.0 => vec![C::from_acc(C::Acc::of(f64::NAN)); m * leading[2]],
        _ => values(m * leading[2], 3),
    };
    let a_rows = m + k - a_columns;
    let b_rows = k + n - b_columns;
    Stored {
        a: values(a_rows * leading[0], 1),
        b: values(b_rows * leading[1], 2),
        c,
        leading,
    }
}

/// Runs a case on values of `T` into `C`.
fn run<T: Element, C: Element>(case: &Case, dtypes: [DType; 2]) -> Vec<C> {
    let Stored {
        mut a,
        mut b,
        mut c,
        leading,
    } = stored::<T, C>(case);
    let old = c.clone();
    let [m, n, k] = case.sizes;
    let matrix = |data, leading, transposed| Matrix {
        data,
        leading,
        transposed,
    };
    let args = Gemm {
        m,
        n,
        k,
        leaf: hal::sums::leaf(k),
        a: matrix(raw(&mut a, dtypes[0]), leading[0], case.transposed[0]),
        b: matrix(raw(&mut b, dtypes[0]), leading[1], case.transposed[1]),
        c: matrix(raw(&mut c, dtypes[1]), leading[2], false),
        alpha: case.alpha,
        beta: case.beta,
        batch: Batch::ONE,
        epilogue: Epilogue::None,
    };
    // SAFETY: the vectors are live and hold the matrices.
    unsafe { gemm(&args, &Pool::new(case.threads).unwrap()) }.unwrap();
    let beside = |c: &[C]| {
        c.chunks(n + 1)
            .map(|row| row[n].acc().wide().to_bits())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        beside(&c),
        beside(&old),
        "elements beside the result are untouched"
    );
    c.chunks(n + 1).flat_map(|row| row[..n].to_vec()).collect()
}

// Half the distance from 1 to the next number, for the type to which the result is rounded.
fn unit_of(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 2f64.powi(-53),
        DType::Bf16 => 2f64.powi(-8),
        DType::F16 => 2f64.powi(-11),
        _ => 2f64.powi(-24),
    }
}

/// The exact result, and the permitted error of each number if results are rounded to `unit`.
fn reference<T: Element, C: Element>(case: &Case, unit: f64) -> Vec<(f64, f64)> {
    let Stored { a, b, c, leading } = stored::<T, C>(case);
    let [m, n, k] = case.sizes;
    let at = |x: &[T], factor: usize, row: usize, column: usize| {
        let (row, column) = if case.transposed[factor] {
            (column, row)
        } else {
            (row, column)
        };
        x[row * leading[factor] + column].acc().wide()
    };
    let sum_unit = if unit < 1e-10 { unit } else { 2f64.powi(-24) };
    let element = |i: usize, j: usize| {
        let terms = (0..k).map(|p| at(&a, 0, i, p) * at(&b, 1, p, j));
        let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()));
        let old = if case.beta == 0.0 {
            0.0
        } else {
            case.beta * c[i * leading[2] + j].acc().wide()
        };
        let exact = case.alpha * sum + old;
        // Each of k additions rounds once, and so does the result.
        let tolerance =
            case.alpha.abs() * size * k as f64 * sum_unit + 4.0 * unit * (exact.abs() + old.abs());
        (exact, tolerance)
    };
    (0..m)
        .flat_map(|i| (0..n).map(move |j| (i, j)))
        .map(|(i, j)| element(i, j))
        .collect()
}

fn check<T: Element, C: Element>(case: &Case, dtypes: [DType; 2]) {
    let (found, expected) = (
        run::<T, C>(case, dtypes),
        reference::<T, C>(case, unit_of(dtypes[1])),
    );
    for (index, (found, (exact, tolerance))) in found.iter().zip(expected).enumerate() {
        let found = found.acc().wide();
        let Case {
            sizes, transposed, ..
        } = case;
        let place = format!("{sizes:?} {transposed:?} {dtypes:?} at {index}");
        assert!(
            (found - exact).abs() <= tolerance,
            "{place}: {found} against {exact}, tolerance {tolerance}"
        );
    }
}

const SIZES: [[usize; 3]; 12] = [
    [1, 1, 1],
    [1, 70, 33],
    [70, 1, 33],
    [5, 7, 9],
    [16, 16, 16],
    [64, 65, 63],
    [65, 130, 1],
    [100, 90, 513],
    [70, 530, 40],
    [530, 70, 40],
    [130, 64, 2],
    [3, 4, 1100],
];

fn cases() -> impl Iterator<Item = Case> {
    let transposed = [[false, false], [false, true], [true, false], [true, true]];
    let scales = [(1.0, 0.0), (1.0, 1.0), (0.5, -0.25)];
    SIZES.into_iter().flat_map(move |sizes| {
        transposed.into_iter().flat_map(move |transposed| {
            scales.map(|(alpha, beta)| Case {
                sizes,
                transposed,
                alpha,
                beta,
                threads: 1,
            })
        })
    })
}

#[test]
fn f64_matmuls() {
    cases().for_each(|case| check::<f64, f64>(&case, [DType::F64, DType::F64]));
}

#[test]
fn f32_matmuls() {
    cases().for_each(|case| check::<f32, f32>(&case, [DType::F32, DType::F32]));
}

#[test]
fn bf16_matmuls() {
    cases().for_each(|case| check::<bf16, bf16>(&case, [DType::Bf16, DType::Bf16]));
    cases().for_each(|case| check::<bf16, f32>(&case, [DType::Bf16, DType::F32]));
}

#[test]
fn f16_matmuls() {
    cases().for_each(|case| check::<f16, f16>(&case, [DType::F16, DType::F16]));
    cases().for_each(|case| check::<f16, f32>(&case, [DType::F16, DType::F32]));
}

#[test]
fn empty_sizes_scale_the_old_result_or_clear_it() {
    for (sizes, beta) in [[0, 4, 4], [4, 0, 4], [4, 4, 0], [70, 80, 0]]
        .into_iter()
        .flat_map(|s| [(s, 0.0), (s, 0.5)])
    {
        let case = Case {
            sizes,
            transposed: [false, true],
            alpha: 1.0,
            beta,
            threads: 2,
        };
        check::<f32, f32>(&case, [DType::F32, DType::F32]);
        check::<f64, f64>(&case, [DType::F64, DType::F64]);
        check::<bf16, bf16>(&case, [DType::Bf16, DType::Bf16]);
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for transposed in [[false, false], [false, true], [true, false], [true, true]] {
        for sizes in [[300, 600, 550], [600, 300, 700], [257, 129, 1000]] {
            let on = |threads| {
                let case = Case {
                    sizes,
                    transposed,
                    alpha: 0.7,
                    beta: 0.3,
                    threads,
                };
                let single = run::<f32, f32>(&case, [DType::F32, DType::F32]);
                let double = run::<f64, f64>(&case, [DType::F64, DType::F64]);
                let narrow = run::<bf16, bf16>(&case, [DType::Bf16, DType::Bf16]);
                (single, double, narrow)
            };
            let one = on(1);
            assert!(one == on(2) && one == on(3), "{sizes:?} {transposed:?}");
        }
    }
}

#[test]
fn a_mixture_of_types_is_refused_with_its_names() {
    let matrix = |dtype| Matrix {
        data: RawSlice {
            addr: 64,
            len: 0,
            dtype,
        },
        leading: 0,
        transposed: false,
    };
    let (a, b, c) = (matrix(DType::F32), matrix(DType::F16), matrix(DType::F32));
    let args = Gemm {
        m: 0,
        n: 0,
        k: 0,
        leaf: hal::sums::leaf(0),
        a,
        b,
        c,
        alpha: 1.0,
        beta: 0.0,
        batch: Batch::ONE,
        epilogue: Epilogue::None,
    };
    // SAFETY: the matrices are empty.
    let error = unsafe { gemm(&args, &Pool::new(1).unwrap()) }.unwrap_err();
    assert!(error.to_string().contains("f32 x f16 into f32"), "{error}");
}
