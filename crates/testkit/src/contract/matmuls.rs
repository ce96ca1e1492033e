//! Matmuls: every transpose, type and accumulation, at sizes that do not divide; batches; a bias and GELU.

use super::{Open, compare, device, float_types, numbers, read, upload};
use tensor::{
    DType, Tensor,
    ops::{self, Transpose},
};

/// Checks matmuls against a triple loop.
///
/// # Panics
/// When the vendor breaks the contract.
pub fn check(open: Open) {
    let device = device(open);
    for dtype in float_types(&device) {
        for (m, n, k) in [
            (1, 1, 1),
            (3, 5, 7),
            (17, 33, 9),
            (64, 48, 40),
            (130, 65, 70),
        ] {
            for transpose in [Transpose::None, Transpose::First, Transpose::Second] {
                one(&device, dtype, (m, n, k), transpose);
                batch(&device, dtype, (m, n, k), transpose);
            }
        }
        // Libraries accept some of these shapes with an epilogue, and refuse others.
        for (m, n, k) in [
            (1, 1, 1),
            (3, 5, 7),
            (17, 24, 16),
            (64, 48, 40),
            (130, 136, 72),
        ] {
            for transpose in [Transpose::None, Transpose::Second] {
                followed(&device, dtype, (m, n, k), transpose);
            }
        }
    }
}

fn shapes((m, n, k): (usize, usize, usize), transpose: Transpose) -> ([usize; 2], [usize; 2]) {
    let a = if transpose == Transpose::First {
        [k, m]
    } else {
        [m, k]
    };
    let b = if transpose == Transpose::Second {
        [n, k]
    } else {
        [k, n]
    };
    (a, b)
}

fn expected(
    a: &[f64],
    b: &[f64],
    (m, n, k): (usize, usize, usize),
    transpose: Transpose,
) -> Vec<f64> {
    let a_at = |i: usize, p: usize| {
        if transpose == Transpose::First {
            a[p * m + i]
        } else {
            a[i * k + p]
        }
    };
    let b_at = |p: usize, j: usize| {
        if transpose == Transpose::Second {
            b[j * k + p]
        } else {
            b[p * n + j]
        }
    };
    let dot = |i: usize, j: usize| (0..k).map(|p| a_at(i, p) * b_at(p, j)).sum::<f64>();
    (0..m * n).map(|index| dot(index / n, index % n)).collect()
}

fn batch(
    device: &tensor::Device,
    dtype: DType,
    sizes: (usize, usize, usize),
    transpose: Transpose,
) {
    let (m, n, k) = sizes;
    let (a, b) = (numbers(6 * m * k, 3), numbers(6 * k * n, 4));
    let parts = a.chunks(m * k).zip(b.chunks(k * n));
    let expected: Vec<f64> = parts
        .flat_map(|(a, b)| expected(a, b, sizes, transpose))
        .collect();
    let (a_shape, b_shape) = shapes(sizes, transpose);
    let of = |shape: [usize; 2]| [2, 3, shape[0], shape[1]];
    let (a, b) = (
        upload(device, dtype, &of(a_shape), &a),
        upload(device, dtype, &of(b_shape), &b),
    );
    let out = ops::matmul_batched(&a, &b, transpose).unwrap();
    assert_eq!(out.shape(), [2, 3, m, n]);
    compare(
        &format!("6 of {m} x {n} x {k} {transpose:?}"),
        &out,
        &expected,
        1.0 + (k as f64).sqrt(),
    );
}

fn followed(
    device: &tensor::Device,
    dtype: DType,
    sizes: (usize, usize, usize),
    transpose: Transpose,
) {
    let (m, n, k) = sizes;
    let (a, b, bias) = (numbers(m * k, 1), numbers(k * n, 2), numbers(n, 5));
    let product = expected(&a, &b, sizes, transpose);
    let sum: Vec<f64> = product
        .iter()
        .enumerate()
        .map(|(index, x)| x + bias[index % n])
        .collect();
    let (a_shape, b_shape) = shapes(sizes, transpose);
    let (a, b) = (
        upload(device, dtype, &a_shape, &a),
        upload(device, dtype, &b_shape, &b),
    );
    let bias = upload(device, dtype, &[n], &bias);
    let (name, scale) = (
        format!("{m} x {n} x {k} {transpose:?}"),
        1.0 + (k as f64).sqrt(),
    );
    compare(
        &format!("{name} and bias"),
        &ops::matmul_bias(&a, &b, transpose, &bias).unwrap(),
        &sum,
        scale,
    );
    for (bias, sum) in [(Some(&bias), &sum), (None, &product)] {
        let (out, kept) = ops::matmul_gelu(&a, &b, transpose, bias).unwrap();
        compare(&format!("{name} before GELU"), &kept, sum, scale);
        let expected: Vec<f64> = sum.iter().map(|&x| gelu(x)).collect();
        compare(&format!("{name} and GELU"), &out, &expected, scale);
    }
}

// The tanh approximation, arXiv:1606.08415.
fn gelu(x: f64) -> f64 {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
    0.5 * x * (1.0 + inner.tanh())
}

fn one(
    device: &tensor::Device,
    dtype: DType,
    (m, n, k): (usize, usize, usize),
    transpose: Transpose,
) {
    let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
    let expected = expected(&a, &b, (m, n, k), transpose);
    let (a_shape, b_shape) = shapes((m, n, k), transpose);
    let (a, b) = (
        upload(device, dtype, &a_shape, &a),
        upload(device, dtype, &b_shape, &b),
    );
    let name = format!("{m} x {n} x {k} {transpose:?}");
    let scale = 1.0 + (k as f64).sqrt();
    compare(
        &name,
        &ops::matmul(&a, &b, transpose).unwrap(),
        &expected,
        scale,
    );
    for out_type in [dtype, dtype.accumulator()] {
        let c = Tensor::full(device, out_type, &[m, n], 0.5).unwrap();
        ops::matmul_into(&a, &b, transpose, &c, 2.0, -1.0).unwrap();
        let expected: Vec<f64> = expected.iter().map(|x| 2.0 * x - 0.5).collect();
        compare(&format!("{name} accumulated"), &c, &expected, 2.0 * scale);
        let c = Tensor::full(device, out_type, &[m, n], f64::NAN).unwrap();
        ops::matmul_into(&a, &b, transpose, &c, 1.0, 0.0).unwrap();
        assert!(
            read(&c).is_none_or(|numbers| numbers.iter().all(|x| x.is_finite())),
            "{name}: with beta 0 the old result is not read"
        );
    }
}
