use super::*;
use hal::kernel::{AdamW, AdamWTensor, ClipScale, Lion, LionTensor, Sgd, SgdTensor, SumSquares};

const SIZES: [usize; 5] = [1, 7, 17, 33, 70_001];

/// weights, gradients, first, second (or velocity): the second moment is positive.
fn state(master: DType, len: usize) -> [Vec<f64>; 4] {
    let second = random(master, len, 4)
        .iter()
        .map(|x| x * x + 0.01)
        .collect::<Vec<_>>();
    [
        random(master, len, 1),
        random(master, len, 2),
        random(master, len, 3),
        rounded(master, &second),
    ]
}

fn memories(master: DType, compute: DType, factor: f64, len: usize) -> Vec<(DType, Vec<f64>)> {
    let mut memories: Vec<_> = state(master, len).map(|values| (master, values)).into();
    memories.extend([(compute, vec![9.0; len]), (DType::F64, vec![factor, 0.0])]);
    memories
}

fn adamw(m: &[RawSlice], with_compute: bool, step: u64) -> Kernel {
    let (weights, gradients, first, second) = (m[0], m[1], m[2], m[3]);
    let compute = with_compute.then_some(m[4]);
    let tensor = AdamWTensor {
        weights,
        gradients,
        first,
        second,
        compute,
        weight_decay: 0.1,
    };
    let (factor, rate, epsilon) = (m[5].part(0, 1), 3e-3, 1e-8);
    Kernel::AdamW(AdamW {
        tensors: vec![tensor],
        factor,
        rate,
        beta1: 0.9,
        beta2: 0.999,
        epsilon,
        step,
    })
}

/// weights, first, second after an update with factor 0.5, by torch.optim.AdamW's single-tensor code.
fn reference_adamw([w, g, m, v]: [f64; 4], step: i32) -> [f64; 3] {
    let (rate, beta1, beta2): (f64, f64, f64) = (3e-3, 0.9, 0.999);
    let g = 0.5 * g;
    let w = w * (1.0 - rate * 0.1);
    let m = m + (g - m) * (1.0 - beta1);
    let v = v * beta2 + (1.0 - beta2) * g * g;
    let denominator = v.sqrt() / (1.0 - beta2.powi(step)).sqrt() + 1e-8;
    [w - rate / (1.0 - beta1.powi(step)) * m / denominator, m, v]
}

#[test]
fn adamw_is_that_of_pytorch() {
    for (master, compute) in [DType::F64, DType::F32]
        .iter()
        .flat_map(|&m| FLOATS.map(|c| (m, c)))
    {
        for (len, step) in SIZES.iter().flat_map(|&len| [(len, 1), (len, 1000)]) {
            let [w, g, m, v] = state(master, len);
            let result = run(&memories(master, compute, 0.5, len), |m| {
                adamw(m, true, step)
            });
            let expected: Vec<_> = (0..len)
                .map(|i| reference_adamw([w[i], g[i], m[i], v[i]], step as i32))
                .collect();
            for (memory, which) in [(0, 0), (2, 1), (3, 2)] {
                let expected: Vec<f64> = expected.iter().map(|e| e[which]).collect();
                assert_close(master, &result[memory], &expected, 8.0);
            }
            assert_eq!(result[4], rounded(compute, &result[0]));
        }
    }
}

// The first step moves every weight by the rate, whatever the gradient: 1 * (1 - 0.1 * 0.01) - 0.1.
#[test]
fn the_first_step_of_adamw_has_the_size_of_the_rate() {
    let memories = [1.0, 0.5, 0.0, 0.0].map(|value| (DType::F32, vec![value]));
    let memories = [&memories[..], &[(DType::F64, vec![1.0])]].concat();
    let result = run(&memories, |m| {
        let (weights, gradients, first, second) = (m[0], m[1], m[2], m[3]);
        let tensor = AdamWTensor {
            weights,
            gradients,
            first,
            second,
            compute: None,
            weight_decay: 0.01,
        };
        let (rate, beta1, beta2, epsilon) = (0.1, 0.9, 0.999, 1e-8);
        Kernel::AdamW(AdamW {
            tensors: vec![tensor],
            factor: m[4],
            rate,
            beta1,
            beta2,
            epsilon,
            step: 1,
        })
    });
    assert!((result[0][0] - 0.899).abs() < 2e-7, "{}", result[0][0]);
}

#[test]
fn a_factor_of_nan_updates_nothing() {
    let before = memories(DType::F32, DType::Bf16, f64::NAN, 33);
    for after in [
        run(&before, |m| adamw(m, true, 7)),
        run(&before, |m| sgd(m, true, true)),
        run(&before, |m| lion(m, true)),
    ] {
        (0..5).for_each(|i| assert_eq!(after[i], before[i].1, "memory {i}"));
    }
}

fn sgd(m: &[RawSlice], with_velocity: bool, with_compute: bool) -> Kernel {
    let velocity = with_velocity.then_some(m[2]);
    let compute = with_compute.then_some(m[4]);
    let tensor = SgdTensor {
        weights: m[0],
        gradients: m[1],
        velocity,
        compute,
        weight_decay: 0.1,
    };
    Kernel::Sgd(Sgd {
        tensors: vec![tensor],
        factor: m[5].part(0, 1),
        rate: 0.03,
        momentum: 0.9,
    })
}

#[test]
fn sgd_with_and_without_momentum() {
    for (master, compute) in [DType::F64, DType::F32]
        .iter()
        .flat_map(|&m| FLOATS.map(|c| (m, c)))
    {
        for (len, velocity) in SIZES.iter().flat_map(|&len| [(len, true), (len, false)]) {
            let [w, g, u, _] = state(master, len);
            let result = run(&memories(master, compute, 0.5, len), |m| {
                sgd(m, velocity, true)
            });
            let step = |i: usize| 0.5 * g[i] + 0.1 * w[i] + if velocity { 0.9 * u[i] } else { 0.0 };
            let weights: Vec<f64> = (0..len).map(|i| w[i] - 0.03 * step(i)).collect();
            let velocities: Vec<f64> = (0..len)
                .map(|i| if velocity { step(i) } else { u[i] })
                .collect();
            assert_close(master, &result[0], &weights, 8.0);
            assert_close(master, &result[2], &velocities, 8.0);
            assert_eq!(result[4], rounded(compute, &result[0]));
        }
    }
}

fn lion(m: &[RawSlice], with_compute: bool) -> Kernel {
    let tensor = LionTensor {
        weights: m[0],
        gradients: m[1],
        momentum: m[2],
        compute: with_compute.then_some(m[4]),
        weight_decay: 0.1,
    };
    Kernel::Lion(Lion {
        tensors: vec![tensor],
        factor: m[5].part(0, 1),
        rate: 3e-3,
        beta1: 0.9,
        beta2: 0.99,
    })
}

#[test]
fn lion_follows_the_sign_of_the_interpolated_momentum() {
    for (master, compute) in [DType::F64, DType::F32]
        .iter()
        .flat_map(|&m| FLOATS.map(|c| (m, c)))
    {
        for len in SIZES {
            let [w, mut g, mut m, _] = state(master, len);
            // The first element's direction is exactly 0, which moves nothing.
            (g[0], m[0]) = (0.0, 0.0);
            let mut before = memories(master, compute, 0.5, len);
            (before[1].1, before[2].1) = (g.clone(), m.clone());
            let result = run(&before, |m| lion(m, true));
            let weight = |i: usize| {
                let direction = 0.9 * m[i] + 0.1 * 0.5 * g[i];
                let sign = if direction == 0.0 {
                    0.0
                } else {
                    direction.signum()
                };
                w[i] - 3e-3 * 0.1 * w[i] - 3e-3 * sign
            };
            let momentum = |i: usize| 0.99 * m[i] + 0.01 * 0.5 * g[i];
            let all = |number: &dyn Fn(usize) -> f64| (0..len).map(number).collect::<Vec<_>>();
            assert_close(master, &result[0], &all(&weight), 8.0);
            assert_close(master, &result[2], &all(&momentum), 8.0);
            assert_eq!(result[4], rounded(compute, &result[0]));
        }
    }
}

#[test]
fn sum_squares_takes_many_types_at_once() {
    let memories: Vec<_> = FLOATS
        .iter()
        .flat_map(|&dtype| [0, 1, 33, 200_001].map(|len| (dtype, random(dtype, len, len as u64))))
        .chain([(DType::F64, vec![0.25])])
        .collect();
    let expected = 0.25 + memories[..16].iter().map(|(_, x)| dot(x, x)).sum::<f64>();
    let result = run(&memories, |m| {
        Kernel::SumSquares(SumSquares {
            slices: m[..16].to_vec(),
            out: m[16],
        })
    });
    assert!(
        (result[16][0] - expected).abs() < 1e-10 * expected,
        "{} against {expected}",
        result[16][0]
    );
}

#[test]
fn sum_squares_does_not_overflow_in_f32() {
    let result = run(
        &[(DType::F32, vec![1e30; 100]), (DType::F64, vec![0.0])],
        |m| {
            Kernel::SumSquares(SumSquares {
                slices: vec![m[0]],
                out: m[1],
            })
        },
    );
    assert!((result[1][0] / 1e62 - 1.0).abs() < 1e-6);
}

fn clip(sum_squares: f64, max_norm: Option<f64>, gradient_scale: f64) -> [f64; 2] {
    let result = run(
        &[
            (DType::F64, vec![sum_squares]),
            (DType::F64, vec![9.0, 9.0]),
        ],
        |m| {
            Kernel::ClipScale(ClipScale {
                sum_squares: m[0],
                out: m[1],
                max_norm,
                gradient_scale,
            })
        },
    );
    [result[1][0], result[1][1]]
}

#[test]
fn clip_scale_clips_only_what_is_too_long() {
    assert_eq!(clip(16.0, None, 0.5), [0.5, 2.0]);
    assert_eq!(clip(16.0, Some(2.5), 0.5), [0.5, 2.0]);
    assert_eq!(clip(16.0, Some(1.0), 0.5), [0.5 / (2.0 + 1e-6), 2.0]);
    assert_eq!(clip(0.0, Some(1.0), 1.0), [1.0, 0.0]);
    let infinite = clip(f64::INFINITY, Some(1.0), 1.0);
    assert!(infinite[0].is_nan() && infinite[1] == f64::INFINITY);
    assert!(clip(f64::NAN, None, 1.0).iter().all(|x| x.is_nan()));
}
