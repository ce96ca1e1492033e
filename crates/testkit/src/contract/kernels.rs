//! Elementwise kernels against their formulas.

use super::{Open, compare, device, float_types, numbers, upload};
use hal::random::Key;
use tensor::{
    DType, Device, Tensor,
    ops::{self, BinaryOp, Region, UnaryOp},
};

/// Checks elementwise kernels, biases, sums of rows and columns, softmax, dropout, blocks, dims and look-ups.
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
        along_rows(&device, dtype);
        moves(&device, dtype);
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
    logarithm_and_root(device, dtype, count);
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
        // A kink has no slope to compare; that of relu lies at 0.
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

// Functions that are defined only for positive numbers.
fn logarithm_and_root(device: &Device, dtype: DType, count: usize) {
    let x: Vec<f64> = numbers(count, 8).iter().map(|x| x.abs() + 0.5).collect();
    let tensor = upload(device, dtype, &[count], &x);
    let ops: [(UnaryOp, Formula, Formula); 2] = [
        (UnaryOp::Log, f64::ln, |x| 1.0 / x),
        (UnaryOp::Sqrt, f64::sqrt, |x| 0.5 / x.sqrt()),
    ];
    for (op, function, slope) in ops {
        let expected: Vec<f64> = x.iter().map(|x| function(*x)).collect();
        compare("unary", &ops::unary(op, &tensor).unwrap(), &expected, 2.0);
        let ones = Tensor::full(device, dtype, &[count], 1.0).unwrap();
        let expected: Vec<f64> = x.iter().map(|x| slope(*x)).collect();
        let found = ops::unary_backward(op, &tensor, ones).unwrap();
        compare("unary backward", &found, &expected, 4.0);
    }
}

type Formula = fn(f64) -> f64;

fn unary() -> [(UnaryOp, Formula); 7] {
    let gelu = |x: f64| {
        0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x)).tanh())
    };
    [
        (UnaryOp::Gelu, gelu),
        (UnaryOp::GeluErf, |x| {
            0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))
        }),
        (UnaryOp::Silu, |x| x / (1.0 + (-x).exp())),
        (UnaryOp::Relu, |x| x.max(0.0)),
        (UnaryOp::Tanh, f64::tanh),
        (UnaryOp::Sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
        (UnaryOp::Exp, f64::exp),
    ]
}

// erf(x), by the series of exp(-x^2) x^(2n + 1) with terms above 0 alone (Abramowitz and Stegun, 7.1.6).
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / (2 * n + 1) as f64;
        sum += term;
    }
    sum * (-x * x).exp() * 2.0 / std::f64::consts::PI.sqrt()
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
    ops::column_sum_into(&upload(device, dtype, &[rows, columns], &x), &sums, 1.0).unwrap();
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

fn along_rows(device: &Device, dtype: DType) {
    for (rows, columns) in [(13, 21), (3, 700), (40, 4)] {
        let (x, d_out) = (numbers(rows * columns, 8), numbers(rows * columns, 9));
        let [tensor, gradient] =
            [&x, &d_out].map(|numbers| upload(device, dtype, &[rows, columns], numbers));
        let sums: Vec<f64> = x.chunks(columns).map(|row| row.iter().sum()).collect();
        compare(
            "row_sum",
            &ops::row_sum(&tensor).unwrap(),
            &sums,
            columns as f64,
        );
        let soft = |row: &[f64]| {
            let sum: f64 = row.iter().map(|x| x.exp()).sum();
            row.iter().map(|x| x.exp() / sum).collect::<Vec<_>>()
        };
        let probabilities: Vec<f64> = x.chunks(columns).flat_map(soft).collect();
        let logs: Vec<f64> = probabilities.iter().map(|p| p.ln()).collect();
        for (log, expected) in [(false, &probabilities), (true, &logs)] {
            let out = ops::softmax(&tensor, log).unwrap();
            compare("softmax", &out, expected, if log { 8.0 } else { 2.0 });
            let of_row = |row: usize| {
                let at = row * columns..(row + 1) * columns;
                let (p, d) = (&probabilities[at.clone()], &d_out[at]);
                let weights = |i: usize| if log { 1.0 } else { p[i] };
                let sum: f64 = (0..columns).map(|i| weights(i) * d[i]).sum();
                let each = |i: usize| match log {
                    true => d[i] - p[i] * sum,
                    false => p[i] * (d[i] - sum),
                };
                (0..columns).map(each).collect::<Vec<_>>()
            };
            let expected: Vec<f64> = (0..rows).flat_map(of_row).collect();
            let found = ops::softmax_backward(&out, &gradient, log).unwrap();
            compare("softmax_backward", &found, &expected, 16.0);
        }
    }
}

fn moves(device: &Device, dtype: DType) {
    let x = numbers(24, 10);
    let tensor = upload(device, dtype, &[2, 3, 4], &x);
    let at = |i: usize, j: usize, k: usize| x[(i * 3 + j) * 4 + k];
    let expected: Vec<f64> = (0..24).map(|n| at(n / 3 % 2, n % 3, n / 6)).collect();
    let found = ops::permute(&tensor, &[2, 0, 1]).unwrap();
    compare("permute", &found, &expected, 1.0);
    let column = tensor.reshape(&[24, 1]).unwrap();
    let expected: Vec<f64> = x.iter().flat_map(|x| [*x; 5]).collect();
    let found = ops::expand(&column, &[24, 5]).unwrap();
    compare("expand of a column", &found, &expected, 1.0);
    let row = tensor.reshape(&[1, 24]).unwrap();
    let found = ops::expand(&row, &[3, 24]).unwrap();
    compare("expand of a row", &found, &x.repeat(3), 1.0);
    let mask = Tensor::from_slice(device, &[6], &[1u32, 0, 2, 0, 0, 1]).unwrap();
    let found = ops::select_rows(&mask, Some(&tensor), None, &tensor).unwrap();
    let kept = |i: usize| {
        if [0, 2, 5].contains(&(i / 4)) {
            x[i]
        } else {
            0.0
        }
    };
    compare(
        "select_rows",
        &found,
        &(0..24).map(kept).collect::<Vec<_>>(),
        1.0,
    );
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
