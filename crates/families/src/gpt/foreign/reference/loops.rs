//! The operations of a transformer as plain loops over rows of f64.

use std::{
    f64::consts::{FRAC_1_SQRT_2, PI},
    thread,
};

/// Numbers of heads and the elements of one.
#[derive(Clone, Copy)]
pub(super) struct Heads {
    pub(super) queries: usize,
    pub(super) keys: usize,
    pub(super) size: usize,
}

/// x + y, in x.
pub(super) fn add(x: &mut [f64], y: &[f64]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}

/// The function of that name.
pub(super) fn activation(name: &str) -> fn(f64) -> f64 {
    match name {
        "silu" | "swish" => |x| x / (1.0 + (-x).exp()),
        "gelu" | "gelu_python" => |x| 0.5 * x * (1.0 + erf(x * FRAC_1_SQRT_2)),
        _ => |x| 0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044_715 * x * x * x)).tanh()),
    }
}

// By the series of Abramowitz and Stegun, 7.1.6, whose terms are all of one sign.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term.abs() > f64::EPSILON * sum.abs() / 8.0 {
        odd += 2.0;
        term *= 2.0 * x * x / odd;
        sum += term;
    }
    sum * (-x * x).exp() * 2.0 / PI.sqrt()
}

pub(super) fn layer_norm(x: &[f64], gain: &[f64], bias: &[f64], epsilon: f64) -> Vec<f64> {
    let width = gain.len();
    let normed = |row: &[f64]| {
        let mean = row.iter().sum::<f64>() / width as f64;
        let squares = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
        let scale = 1.0 / (squares / width as f64 + epsilon).sqrt();
        let each = row.iter().zip(gain).zip(bias);
        each.map(|((x, gain), bias)| (x - mean) * scale * gain + bias)
            .collect::<Vec<_>>()
    };
    x.chunks(width).flat_map(normed).collect()
}

pub(super) fn rms_norm(x: &[f64], gain: &[f64], epsilon: f64) -> Vec<f64> {
    let width = gain.len();
    let normed = |row: &[f64]| {
        let squares = row.iter().map(|x| x * x).sum::<f64>();
        let scale = 1.0 / (squares / width as f64 + epsilon).sqrt();
        let each = row.iter().zip(gain);
        each.map(|(x, gain)| x * scale * gain).collect::<Vec<_>>()
    };
    x.chunks(width).flat_map(normed).collect()
}

/// The transpose of a matrix with that many rows.
pub(super) fn transposed(matrix: &[f64], rows: usize) -> Vec<f64> {
    let columns = matrix.len() / rows;
    let column = |column: usize| (0..rows).map(move |row| matrix[row * columns + column]);
    (0..columns).flat_map(column).collect()
}

/// x W^T + b, where W has a row for each output, of `inputs` elements.
pub(super) fn matmul(x: &[f64], weight: &[f64], inputs: usize, bias: Option<&[f64]>) -> Vec<f64> {
    let (rows, outputs) = (x.len() / inputs, weight.len() / inputs);
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let each = outputs.div_ceil(workers).max(1);
    // The products of an output with all rows lie together.
    let mut products = vec![0.0; outputs * rows];
    thread::scope(|scope| {
        let parts = weight.chunks(each * inputs);
        for (weight, out) in parts.zip(products.chunks_mut(each * rows)) {
            scope.spawn(move || {
                for (weights, out) in weight.chunks(inputs).zip(out.chunks_mut(rows)) {
                    for (x, out) in x.chunks(inputs).zip(out) {
                        *out = dot(x, weights);
                    }
                }
            });
        }
    });
    let at = |row: usize, output: usize| {
        products[output * rows + row] + bias.map_or(0.0, |bias| bias[output])
    };
    (0..rows)
        .flat_map(|row| (0..outputs).map(move |output| at(row, output)))
        .collect()
}

// In eight sums, which the processor adds at a time.
fn dot(x: &[f64], y: &[f64]) -> f64 {
    let (x, rest_of_x) = x.as_chunks::<8>();
    let (y, rest_of_y) = y.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (x, y) in x.iter().zip(y) {
        for lane in 0..8 {
            sums[lane] += x[lane] * y[lane];
        }
    }
    let rest = rest_of_x.iter().zip(rest_of_y);
    sums.iter().sum::<f64>() + rest.map(|(x, y)| x * y).sum::<f64>()
}

/// Below the bound `cap`: x becomes cap * tanh(x / cap).
pub(super) fn capped(x: f64, cap: Option<f64>) -> f64 {
    cap.map_or(x, |cap| cap * (x / cap).tanh())
}

/// Causal attention, one query at a time, on no more than `window` keys, with scores below `cap`.
pub(super) fn attention(
    [q, k, v]: [&[f64]; 3],
    heads: Heads,
    window: Option<usize>,
    cap: Option<f64>,
) -> Vec<f64> {
    let Heads {
        queries,
        keys,
        size,
    } = heads;
    let (wide, narrow) = (queries * size, keys * size);
    let scale = 1.0 / (size as f64).sqrt();
    let mut out = vec![0.0; q.len()];
    for place in 0..q.len() / wide {
        for head in 0..queries {
            let own = head / (queries / keys) * size;
            let query = &q[place * wide + head * size..][..size];
            let of = |other: usize| other * narrow + own..other * narrow + own + size;
            let score = |other: usize| capped(scale * dot(query, &k[of(other)]), cap);
            let first = window.map_or(0, |window| (place + 1).saturating_sub(window));
            let scores: Vec<f64> = (first..=place).map(score).collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let shares: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
            let sum: f64 = shares.iter().sum();
            let out = &mut out[place * wide + head * size..][..size];
            for (other, share) in (first..).zip(&shares) {
                let value = &v[of(other)];
                out.iter_mut()
                    .zip(value)
                    .for_each(|(out, value)| *out += share / sum * value);
            }
        }
    }
    out
}
