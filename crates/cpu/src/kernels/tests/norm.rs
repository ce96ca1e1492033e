use super::*;
use hal::kernel::{
    CombineMoments, Moments, NormKind, NormShape, Normalize, NormalizeBackward, NormalizeSums,
};

const KINDS: [NormKind; 3] = NormKind::ALL;
const ROWS: [usize; 3] = [0, 3, 1101];

fn shape(kind: NormKind, rows: usize, columns: usize) -> NormShape {
    NormShape {
        kind,
        rows,
        columns,
        global_columns: columns,
        epsilon: 1e-5,
    }
}

/// Every case: type, kind, rows, columns.
fn cases() -> impl Iterator<Item = (DType, NormShape)> {
    let of = |dtype, kind| {
        ROWS.into_iter()
            .flat_map(move |rows| COLUMNS.map(|c| (dtype, shape(kind, rows, c))))
    };
    FLOATS
        .into_iter()
        .flat_map(move |dtype| KINDS.into_iter().flat_map(move |kind| of(dtype, kind)))
}

fn reference_moments(shape: NormShape, x: &[f64]) -> Vec<f64> {
    let row = |x: &[f64]| {
        let mean = if shape.kind == NormKind::Layer {
            x.iter().sum::<f64>() / x.len() as f64
        } else {
            0.0
        };
        [mean, x.iter().map(|x| (x - mean).powi(2)).sum()]
    };
    x.chunks(shape.columns).flat_map(row).collect()
}

/// Normalised values, without gain and bias.
fn reference_xhat(shape: NormShape, x: &[f64]) -> Vec<f64> {
    let moments = reference_moments(shape, x);
    let element = |(i, x): (usize, &f64)| {
        let row = i / shape.columns;
        (x - moments[2 * row])
            / (moments[2 * row + 1] / shape.columns as f64 + shape.epsilon).sqrt()
    };
    x.iter().enumerate().map(element).collect()
}

fn reference(shape: NormShape, x: &[f64], gain: &[f64], bias: &[f64]) -> Vec<f64> {
    let offset = if shape.kind == NormKind::RmsOffset {
        1.0
    } else {
        0.0
    };
    let affine = |(i, xhat): (usize, f64)| {
        xhat * (offset + gain[i % shape.columns]) + bias[i % shape.columns]
    };
    reference_xhat(shape, x)
        .into_iter()
        .enumerate()
        .map(affine)
        .collect()
}

#[test]
fn moments_of_rows() {
    for (dtype, shape) in cases() {
        let x = random(dtype, shape.rows * shape.columns, 1);
        let expected = reference_moments(shape, &x);
        let accumulator = dtype.accumulator();
        let result = run(
            &[(dtype, x), (accumulator, vec![9.0; 2 * shape.rows])],
            |m| {
                Kernel::Moments(Moments {
                    shape,
                    x: m[0],
                    moments: m[1],
                })
            },
        );
        assert_close(accumulator, &result[1], &expected, 8.0);
    }
}

#[test]
fn moments_of_shards_combine_to_those_of_the_row() {
    for (dtype, kind) in [DType::F64, DType::F32]
        .iter()
        .flat_map(|&dtype| KINDS.map(|kind| (dtype, kind)))
    {
        let (rows, columns, shards) = (5, 7, 3);
        let shape = NormShape {
            global_columns: columns * shards,
            ..shape(kind, rows, columns)
        };
        let x = random(DType::F64, rows * columns * shards, 1);
        let shard = |shard: usize| -> Vec<f64> {
            x.chunks(columns * shards)
                .flat_map(|row| row[shard * columns..(shard + 1) * columns].to_vec())
                .collect()
        };
        let parts = (0..shards)
            .flat_map(|index| reference_moments(shape, &shard(index)))
            .collect();
        let expected = reference_moments(
            NormShape {
                columns: columns * shards,
                ..shape
            },
            &x,
        );
        let result = run(&[(dtype, parts), (dtype, vec![9.0; 2 * rows])], |m| {
            Kernel::CombineMoments(CombineMoments {
                shape,
                parts: m[0],
                widths: vec![columns; shards],
                moments: m[1],
            })
        });
        assert_close(dtype, &result[1], &expected, 8.0);
    }
}

#[test]
fn normalize_applies_gain_and_bias() {
    for (dtype, shape) in cases() {
        let (x, gain) = (
            random(dtype, shape.rows * shape.columns, 1),
            random(dtype, shape.columns, 2),
        );
        let with_bias = shape.kind == NormKind::Layer;
        let bias = if with_bias {
            random(dtype, shape.columns, 3)
        } else {
            vec![0.0; shape.columns]
        };
        let expected = reference(shape, &x, &gain, &bias);
        let moments = reference_moments(shape, &x);
        let zeros = vec![0.0; x.len()];
        let memories = [
            (dtype, x),
            (dtype.accumulator(), moments),
            (dtype, gain),
            (dtype, bias),
            (dtype, zeros),
        ];
        let result = run(&memories, |m| {
            let bias = with_bias.then_some(m[3]);
            Kernel::Normalize(Normalize {
                shape,
                x: m[0],
                moments: m[1],
                gain: m[2],
                bias,
                out: m[4],
            })
        });
        assert_close(dtype, &result[4], &expected, 300.0);
    }
}

/// The results of both kernels of the backward pass: sums, d_gain, d_bias, d_x.
struct Gradients {
    sums: Vec<f64>,
    d_gain: Vec<f64>,
    d_bias: Vec<f64>,
    d_x: Vec<f64>,
}

fn backward(
    dtype: DType,
    shape: NormShape,
    x: &[f64],
    gain: &[f64],
    d_out: &[f64],
    in_place: bool,
) -> Gradients {
    let (accumulator, columns) = (dtype.accumulator(), shape.columns);
    let moments = (accumulator, reference_moments(shape, x));
    let inputs = [
        (dtype, x.to_vec()),
        moments,
        (dtype, gain.to_vec()),
        (dtype, d_out.to_vec()),
    ];
    // Either added to, or not read.
    let (beta, held) = if in_place {
        (0.0, f64::NAN)
    } else {
        (1.0, 0.5)
    };
    let added = (accumulator, vec![held; columns]);
    let mut memories = inputs.to_vec();
    memories.extend([
        (accumulator, vec![9.0; 2 * shape.rows]),
        added.clone(),
        added,
    ]);
    let result = run(&memories, |m| {
        let d_bias = (shape.kind == NormKind::Layer).then_some(m[6]);
        let (x, moments, gain, d_out, sums, d_gain) = (m[0], m[1], m[2], m[3], m[4], m[5]);
        Kernel::NormalizeSums(NormalizeSums {
            shape,
            x,
            moments,
            gain,
            d_out,
            sums,
            d_gain,
            d_bias,
            beta,
        })
    });
    let less = |values: &[f64]| values.iter().map(|value| value - 0.5 * beta).collect();
    let (sums, d_gain, d_bias) = (result[4].clone(), less(&result[5]), less(&result[6]));
    memories = inputs.to_vec();
    memories.extend([(accumulator, sums.clone()), (dtype, vec![9.0; x.len()])]);
    let to = if in_place { 3 } else { 5 };
    let mut result = run(&memories, |m| {
        let (x, moments, gain, d_out, sums, d_x) = (m[0], m[1], m[2], m[3], m[4], m[to]);
        Kernel::NormalizeBackward(NormalizeBackward {
            shape,
            x,
            moments,
            gain,
            d_out,
            sums,
            d_x,
        })
    });
    Gradients {
        sums,
        d_gain,
        d_bias,
        d_x: result.swap_remove(to),
    }
}

#[test]
fn backward_is_the_derivative() {
    for (kind, columns) in KINDS
        .iter()
        .flat_map(|&kind| COLUMNS.map(|columns| (kind, columns)))
    {
        let shape = shape(kind, 3, columns);
        let f64s = |len, seed| random(DType::F64, len, seed);
        let (x, gain, d_out) = (f64s(3 * columns, 1), f64s(columns, 2), f64s(3 * columns, 3));
        let zeros = vec![0.0; columns];
        let found = backward(DType::F64, shape, &x, &gain, &d_out, false);
        let by_x = finite_differences(&x, |x| dot(&reference(shape, x, &gain, &zeros), &d_out));
        let by_gain = finite_differences(&gain, |gain| {
            dot(&reference(shape, &x, gain, &zeros), &d_out)
        });
        let by_bias = finite_differences(&zeros, |bias| {
            dot(&reference(shape, &x, &gain, bias), &d_out)
        });
        assert_gradient(&found.d_gain, &by_gain);
        // A single column equals its mean, so its gradient is 0, up to roundings multiplied by rstd = 300.
        if columns > 1 {
            assert_gradient(&found.d_x, &by_x);
        }
        if kind == NormKind::Layer {
            assert_gradient(&found.d_bias, &by_bias);
        } else {
            assert_eq!(found.d_bias, zeros, "no bias, nothing written");
        }
    }
}

#[test]
fn backward_agrees_in_all_types_and_in_place() {
    for (dtype, shape) in cases().filter(|(_, shape)| shape.columns > 1) {
        let len = shape.rows * shape.columns;
        let (x, gain, d_out) = (
            random(dtype, len, 1),
            random(dtype, shape.columns, 2),
            random(dtype, len, 3),
        );
        let expected = backward(DType::F64, shape, &x, &gain, &d_out, false);
        let accumulator = dtype.accumulator();
        for in_place in [false, true] {
            let found = backward(dtype, shape, &x, &gain, &d_out, in_place);
            let slack = 100.0 + shape.rows as f64;
            assert_close(accumulator, &found.d_gain, &expected.d_gain, slack);
            if shape.kind == NormKind::Layer {
                assert_close(accumulator, &found.d_bias, &expected.d_bias, slack);
            }
            assert_close(accumulator, &found.sums, &expected.sums, 100.0);
            assert_close(dtype, &found.d_x, &expected.d_x, 300.0);
        }
    }
}
