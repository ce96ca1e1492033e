use super::*;
use hal::kernel::{Swiglu, SwigluBackward, Unary, UnaryBackward, UnaryOp};

type Function = (UnaryOp, fn(f64) -> f64);

const OPS: [Function; 7] = [
    (UnaryOp::Gelu, |x| {
        0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x * x * x)).tanh())
    }),
    (UnaryOp::GeluErf, |x| {
        0.5 * x * erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
    }),
    (UnaryOp::Silu, |x| x / (1.0 + (-x).exp())),
    (UnaryOp::Relu, |x| x.max(0.0)),
    (UnaryOp::Tanh, f64::tanh),
    (UnaryOp::Sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
    (UnaryOp::Exp, f64::exp),
];

const SIZES: [usize; 5] = [1, 7, 17, 33, 50_001];

// erfc(x): by the series of Abramowitz and Stegun, 7.1.6, and by the continued fraction 7.1.14, where 1 - erf would cancel.
fn erfc(x: f64) -> f64 {
    if x < 0.0 {
        return 2.0 - erfc(-x);
    }
    let scale = (-x * x).exp() / std::f64::consts::PI.sqrt();
    if x > 1.0 {
        let fraction = (1..200).rev().fold(x, |rest, k| x + k as f64 / 2.0 / rest);
        return scale / fraction;
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..100 {
        term *= 2.0 * x * x / (2 * n + 1) as f64;
        sum += term;
    }
    1.0 - 2.0 * scale * sum
}

#[test]
fn unary_matches_its_formula() {
    for (dtype, len) in FLOATS
        .iter()
        .flat_map(|&dtype| SIZES.map(|len| (dtype, len)))
    {
        for (op, reference) in OPS {
            let x = random(dtype, len, 1);
            let x = rounded(dtype, &x.iter().map(|x| x * 4.0).collect::<Vec<_>>());
            let expected: Vec<f64> = x.iter().map(|&x| reference(x)).collect();
            let memories = [(dtype, x), (dtype, vec![0.0; len])];
            for out in [1, 0] {
                let result = run(&memories, |m| {
                    Kernel::Unary(Unary {
                        op,
                        x: m[0],
                        out: m[out],
                    })
                });
                assert_close(dtype, &result[out], &expected, 8.0);
            }
        }
    }
}

// Far from 0, no result may become NaN.
#[test]
fn unary_saturates() {
    for dtype in FLOATS {
        for (op, reference) in OPS {
            let x = [-60_000.0, -100.0, 100.0, 60_000.0];
            let x = rounded(dtype, &x);
            let expected: Vec<f64> =
                rounded(dtype, &x.iter().map(|&x| reference(x)).collect::<Vec<_>>());
            let result = run(&[(dtype, x)], |m| {
                Kernel::Unary(Unary {
                    op,
                    x: m[0],
                    out: m[0],
                })
            });
            for (found, expected) in result[0].iter().zip(&expected) {
                let close = (found - expected).abs() <= 1e-6 * expected.abs() || found == expected;
                assert!(
                    close || expected.abs() < 1e-37,
                    "{op:?}, {dtype}: {found}, expected {expected}"
                );
            }
        }
    }
}

fn backward(dtype: DType, op: UnaryOp, x: &[f64], d_out: &[f64], d_x: usize) -> Vec<f64> {
    let memories = [
        (dtype, x.to_vec()),
        (dtype, d_out.to_vec()),
        (dtype, vec![0.0; x.len()]),
    ];
    run(&memories, |m| {
        Kernel::UnaryBackward(UnaryBackward {
            op,
            x: m[0],
            d_out: m[1],
            d_x: m[d_x],
        })
    })
    .swap_remove(d_x)
}

#[test]
fn unary_backward_is_the_derivative() {
    for (op, reference) in OPS {
        let (x, d_out) = (random(DType::F64, 33, 1), random(DType::F64, 33, 2));
        let expected = finite_differences(&x, |x| {
            dot(&x.iter().map(|&x| reference(x)).collect::<Vec<_>>(), &d_out)
        });
        assert_gradient(&backward(DType::F64, op, &x, &d_out, 2), &expected);
    }
}

#[test]
fn unary_backward_agrees_in_all_types() {
    for (dtype, len) in FLOATS
        .iter()
        .flat_map(|&dtype| SIZES.map(|len| (dtype, len)))
    {
        for (op, _) in OPS {
            let (x, d_out) = (random(dtype, len, 1), random(dtype, len, 2));
            let expected = backward(DType::F64, op, &x, &d_out, 2);
            for d_x in [2, 1] {
                assert_close(
                    dtype,
                    &backward(dtype, op, &x, &d_out, d_x),
                    &expected,
                    16.0,
                );
            }
        }
    }
}

fn silu_times(gate: &[f64], up: &[f64]) -> Vec<f64> {
    gate.iter()
        .zip(up)
        .map(|(&g, &u)| g / (1.0 + (-g).exp()) * u)
        .collect()
}

#[test]
fn swiglu_matches_its_formula() {
    for (dtype, len) in FLOATS
        .iter()
        .flat_map(|&dtype| SIZES.map(|len| (dtype, len)))
    {
        let (gate, up) = (random(dtype, len, 1), random(dtype, len, 2));
        let expected = silu_times(&gate, &up);
        let memories = [(dtype, gate), (dtype, up), (dtype, vec![0.0; len])];
        for out in [2, 0, 1] {
            let result = run(&memories, |m| {
                Kernel::Swiglu(Swiglu {
                    gate: m[0],
                    up: m[1],
                    out: m[out],
                })
            });
            assert_close(dtype, &result[out], &expected, 8.0);
        }
    }
}

fn swiglu_gradients(dtype: DType, inputs: [&[f64]; 3], to: [usize; 2]) -> [Vec<f64>; 2] {
    let zeros = vec![0.0; inputs[0].len()];
    let memories: Vec<_> = inputs
        .iter()
        .copied()
        .chain([&zeros[..], &zeros])
        .map(|values| (dtype, values.to_vec()))
        .collect();
    let result = run(&memories, |m| {
        let (d_gate, d_up) = (m[to[0]], m[to[1]]);
        Kernel::SwigluBackward(SwigluBackward {
            gate: m[0],
            up: m[1],
            d_out: m[2],
            d_gate,
            d_up,
        })
    });
    to.map(|index| result[index].clone())
}

#[test]
fn swiglu_backward_is_the_derivative_in_all_types_and_in_place() {
    let f64s = |seed| random(DType::F64, 17, seed);
    let (gate, up, d) = (f64s(1), f64s(2), f64s(3));
    let found = swiglu_gradients(DType::F64, [&gate, &up, &d], [3, 4]);
    assert_gradient(
        &found[0],
        &finite_differences(&gate, |gate| dot(&silu_times(gate, &up), &d)),
    );
    assert_gradient(
        &found[1],
        &finite_differences(&up, |up| dot(&silu_times(&gate, up), &d)),
    );
    for (dtype, len) in FLOATS
        .iter()
        .flat_map(|&dtype| SIZES.map(|len| (dtype, len)))
    {
        let (gate, up, d) = (
            random(dtype, len, 1),
            random(dtype, len, 2),
            random(dtype, len, 3),
        );
        let expected = swiglu_gradients(DType::F64, [&gate, &up, &d], [3, 4]);
        for to in [[3, 4], [0, 1]] {
            let found = swiglu_gradients(dtype, [&gate, &up, &d], to);
            assert_close(dtype, &found[0], &expected[0], 16.0);
            assert_close(dtype, &found[1], &expected[1], 16.0);
        }
    }
}
