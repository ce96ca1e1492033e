//! Elementwise kernels against their formulas.

use super::{Open, compare, device, float_types, numbers, upload};
use hal::random::Key;
use tensor::{
    DType, Device, Tensor,
    ops::{self, BinaryOp, Region, UnaryOp},
};

/// Checks elementwise kernels, biases, column sums, dropout, blocks and look-ups.
///
/// # Panics
/// When the vendor breaks the contract.
pub fn check(open: Open) {
    let device = device(open);
    for dtype in float_types(&device) {
        for count in [1, 31, 1000] {
            elementwise(&device, dtype, count);
        }
        rows(&device, dtype);
        lookups(&device, dtype);
    }
}

fn elementwise(device: &Device, dtype: DType, count: usize) {
    let (x, y) = (numbers(count, 1), numbers(count, 2));
    let [a, b] = [&x, &y].map(|numbers| upload(device, dtype, &[count], numbers));
    let pairs = |f: &dyn Fn(f64, f64) -> f64| -> Vec<f64> {
        x.iter().zip(&y).map(|(a, b)| f(*a, *b)).collect()
    };
    compare(
        "add",
        &ops::add(&a, &b).unwrap(),
        &pairs(&|a, b| a + b),
        1.0,
    );
    compare(
        "mul",
        &ops::binary(BinaryOp::Mul, &a, &b).unwrap(),
        &pairs(&|a, b| a * b),
        1.0,
    );
    compare(
        "sub",
        &ops::binary(BinaryOp::Sub, &a, &b).unwrap(),
        &pairs(&|a, b| a - b),
        1.0,
    );
    let sum = upload(device, dtype, &[count], &y);
    ops::axpby(2.0, &a, -0.5, &sum).unwrap();
    compare("axpby", &sum, &pairs(&|a, b| 2.0 * a - 0.5 * b), 3.0);
    let silu = |x: f64| x / (1.0 + (-x).exp());
    compare(
        "swiglu",
        &ops::swiglu(&a, &b).unwrap(),
        &pairs(&|a, b| silu(a) * b),
        1.0,
    );
    let ones = |value: f64| Tensor::full(device, dtype, &[count], value).unwrap();
    for (op, f) in unary() {
        compare(
            "unary",
            &ops::unary(op, &a).unwrap(),
            &x.iter().map(|x| f(*x)).collect::<Vec<_>>(),
            3.0,
        );
        let slope = |x: f64| (f(x + 1e-6) - f(x - 1e-6)) / 2e-6;
        let expected: Vec<f64> = x.iter().map(|x| slope(*x)).collect();
        // A kink has no slope to compare; relu's lies at 0.
        let smooth = op != UnaryOp::Relu || x.iter().all(|x| *x != 0.0);
        if smooth {
            let found = ops::unary_backward(op, &a, ones(1.0)).unwrap();
            compare(
                "unary backward",
                &found,
                &expected,
                3.0 + 1e-6 / super::tolerance(dtype),
            );
        }
    }
}

type Formula = fn(f64) -> f64;

fn unary() -> [(UnaryOp, Formula); 6] {
    let gelu = |x: f64| {
        0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x)).tanh())
    };
    [
        (UnaryOp::Gelu, gelu),
        (UnaryOp::Silu, |x| x / (1.0 + (-x).exp())),
        (UnaryOp::Relu, |x| x.max(0.0)),
        (UnaryOp::Tanh, f64::tanh),
        (UnaryOp::Sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
        (UnaryOp::Exp, f64::exp),
    ]
}

fn rows(device: &Device, dtype: DType) {
    let (rows, columns) = (13, 21);
    let (x, bias) = (numbers(rows * columns, 3), numbers(columns, 4));
    let tensor = upload(device, dtype, &[rows, columns], &x);
    ops::add_bias(&tensor, &upload(device, dtype, &[columns], &bias)).unwrap();
    let expected: Vec<f64> = x
        .iter()
        .enumerate()
        .map(|(i, x)| x + bias[i % columns])
        .collect();
    compare("add_bias", &tensor, &expected, 2.0);
    let sums = Tensor::full(device, dtype.accumulator(), &[columns], 1.0).unwrap();
    ops::column_sum_into(&upload(device, dtype, &[rows, columns], &x), &sums).unwrap();
    let column = |c: usize| 1.0 + (0..rows).map(|r| x[r * columns + c]).sum::<f64>();
    compare(
        "column_sum",
        &sums,
        &(0..columns).map(column).collect::<Vec<_>>(),
        4.0,
    );
    let part = ops::columns(&upload(device, dtype, &[rows, columns], &x), 3, 7).unwrap();
    let expected: Vec<f64> = (0..rows)
        .flat_map(|r| x[r * columns + 3..r * columns + 10].to_vec())
        .collect();
    compare("columns", &part, &expected, 1.0);
    dropout(device, dtype);
}

fn dropout(device: &Device, dtype: DType) {
    let region = Region {
        rows: 5,
        columns: 6,
        first_row: 3,
        first_column: 2,
        global_columns: 11,
    };
    let key = Key::new(5, "contract", 1);
    let ones = Tensor::full(device, dtype, &[5, 6], 1.0).unwrap();
    let kept = |index: usize| {
        let global = (region.first_row + index / 6) * 11 + region.first_column + index % 6;
        if f64::from(key.uniform(global as u64)) < 0.4 {
            0.0
        } else {
            1.0 / 0.6
        }
    };
    let expected: Vec<f64> = (0..30).map(kept).collect();
    compare(
        "dropout",
        &ops::dropout(&ones, 0.4, key, region).unwrap(),
        &expected,
        2.0,
    );
}

fn lookups(device: &Device, dtype: DType) {
    let (first, columns) = (10, 5);
    let table = numbers(4 * columns, 6);
    let ids = [12u32, 9, 10, 14, 12, u32::MAX];
    let id_tensor = Tensor::from_slice(device, &[ids.len()], &ids).unwrap();
    let found = ops::embedding(
        &upload(device, dtype, &[4, columns], &table),
        &id_tensor,
        first,
    )
    .unwrap();
    let row = |id: u32| {
        (first as u32..first as u32 + 4)
            .contains(&id)
            .then(|| (id as usize - first) * columns)
    };
    let element = |index: usize| {
        row(ids[index / columns]).map_or(0.0, |start| table[start + index % columns])
    };
    compare(
        "embedding",
        &found,
        &(0..ids.len() * columns).map(element).collect::<Vec<_>>(),
        1.0,
    );
    let d_out = numbers(ids.len() * columns, 7);
    let d_table = Tensor::zeros(device, dtype.accumulator(), &[4, columns]).unwrap();
    ops::embedding_backward(
        &upload(device, dtype, &[ids.len(), columns], &d_out),
        &id_tensor,
        &d_table,
        first,
    )
    .unwrap();
    let mut expected = vec![0.0; 4 * columns];
    for (index, gradient) in d_out.iter().enumerate() {
        if let Some(start) = row(ids[index / columns]) {
            expected[start + index % columns] += gradient;
        }
    }
    compare("embedding_backward", &d_table, &expected, 3.0);
}
