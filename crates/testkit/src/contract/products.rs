//! Matrix products: every transpose, type and accumulation, at sizes that do not divide.

use super::{Open, compare, device, float_types, numbers, read, upload};
use tensor::{
    DType, Tensor,
    ops::{self, Transpose},
};

/// Checks products against a triple loop.
///
/// # Panics
/// When the vendor breaks the contract.
pub fn check(open: Open) {
    let device = device(open);
    for dtype in float_types(&device) {
        for (m, n, k) in [(1, 1, 1), (3, 5, 7), (17, 33, 9), (64, 48, 40), (130, 65, 70)] {
            for transpose in [Transpose::None, Transpose::First, Transpose::Second] {
                one(&device, dtype, (m, n, k), transpose);
            }
        }
    }
}

fn one(device: &tensor::Device, dtype: DType, (m, n, k): (usize, usize, usize), transpose: Transpose) {
    let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
    let a_at = |i: usize, p: usize| if transpose == Transpose::First { a[p * m + i] } else { a[i * k + p] };
    let b_at = |p: usize, j: usize| if transpose == Transpose::Second { b[j * k + p] } else { b[p * n + j] };
    let dot = |i: usize, j: usize| (0..k).map(|p| a_at(i, p) * b_at(p, j)).sum::<f64>();
    let expected: Vec<f64> = (0..m * n).map(|index| dot(index / n, index % n)).collect();
    let a_shape = if transpose == Transpose::First { [k, m] } else { [m, k] };
    let b_shape = if transpose == Transpose::Second { [n, k] } else { [k, n] };
    let (a, b) = (upload(device, dtype, &a_shape, &a), upload(device, dtype, &b_shape, &b));
    let name = format!("{m} x {n} x {k} {transpose:?}");
    let scale = 1.0 + (k as f64).sqrt();
    compare(&name, &ops::matmul(&a, &b, transpose).unwrap(), &expected, scale);
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
