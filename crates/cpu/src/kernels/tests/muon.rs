use super::*;
use hal::kernel::{Momentum, MomentumTensor, UnitNorm};

const SIZES: [usize; 4] = [1, 17, 33, 70_001];

fn momentum(m: &[RawSlice]) -> Kernel {
    let tensor = |m: &[RawSlice]| MomentumTensor {
        gradients: m[0],
        momentum: m[1],
    };
    Kernel::Momentum(Momentum {
        tensors: vec![tensor(&m[..2]), tensor(&m[2..4])],
        factor: m[4].part(0, 1),
        beta: 0.95,
    })
}

#[test]
fn momentum_leaves_the_direction_of_nesterov() {
    for (dtype, len) in [DType::F64, DType::F32]
        .iter()
        .flat_map(|&dtype| SIZES.map(|len| (dtype, len)))
    {
        let mut memories: Vec<_> = (1..5)
            .map(|seed| (dtype, random(dtype, len, seed)))
            .collect();
        memories.push((DType::F64, vec![0.5, 0.0]));
        let result = run(&memories, momentum);
        for pair in [0, 2] {
            let (g, m) = (&memories[pair].1, &memories[pair + 1].1);
            let momentum = |i: usize| 0.95 * m[i] + 0.05 * 0.5 * g[i];
            let direction = |i: usize| 0.95 * momentum(i) + 0.05 * 0.5 * g[i];
            let all = |number: &dyn Fn(usize) -> f64| (0..len).map(number).collect::<Vec<_>>();
            assert_close(dtype, &result[pair], &all(&direction), 8.0);
            assert_close(dtype, &result[pair + 1], &all(&momentum), 8.0);
        }
        memories[4].1[0] = f64::NAN;
        let skipped = run(&memories, momentum);
        (0..4).for_each(|i| assert_eq!(skipped[i], memories[i].1, "memory {i}"));
    }
}

#[test]
fn a_unit_norm_divides_by_the_root_of_the_squares() {
    for out in FLOATS {
        let dtype = out.accumulator();
        for len in SIZES {
            let x = random(dtype, len, 3);
            let squares = dot(&x, &x);
            let memories = [
                (dtype, x.clone()),
                (DType::F64, vec![squares]),
                (out, vec![9.0; len]),
            ];
            let result = run(&memories, |m| {
                Kernel::UnitNorm(UnitNorm {
                    x: m[0],
                    sum_squares: m[1],
                    out: m[2],
                    epsilon: 0.25,
                })
            });
            let expected: Vec<f64> = x.iter().map(|x| x / (squares.sqrt() + 0.25)).collect();
            assert_close(out, &result[2], &expected, 4.0);
        }
    }
}
