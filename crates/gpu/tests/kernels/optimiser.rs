//! Sum of squares, clipping, AdamW, SGD and Lion, over more tensors than fit one launch.

use crate::{
    machine::compare,
    memory::{FLOATS, Memory, random},
};
use hal::{
    DType, Kernel, RawSlice,
    kernel::{
        AdamW, AdamWTensor, ClipScale, Lion, LionTensor, Momentum, MomentumTensor, Sgd, SgdTensor,
        SumSquares, UnitNorm,
    },
};

#[test]
fn squares_of_many_slices_are_summed() {
    let lens = (0..140).map(|index| if index == 3 { 70_001 } else { index * 7 });
    let slice = |(index, len): (usize, usize)| {
        Memory::new(FLOATS[index % 4].0, &random(len, index as u64), index % 3)
    };
    let mut memories: Vec<Memory> = lens.enumerate().map(slice).collect();
    memories.push(Memory::new(DType::F64, &[0.5], 0));
    compare(&memories, 1e-14, |m| {
        let (out, slices) = m.split_last().unwrap();
        Kernel::SumSquares(SumSquares {
            slices: slices.to_vec(),
            out: *out,
        })
    });
}

#[test]
fn norms_are_clipped() {
    for sum in [0.0, 4.0, 1e6, f64::INFINITY, f64::NAN] {
        for max_norm in [None, Some(1.0)] {
            let memories = [
                Memory::new(DType::F64, &[sum], 0),
                Memory::new(DType::F64, &[0.0, 0.0], 0),
            ];
            compare(&memories, 1e-15, |m| {
                let [sum_squares, out] = [m[0], m[1]];
                Kernel::ClipScale(ClipScale {
                    sum_squares,
                    out,
                    max_norm,
                    gradient_scale: 0.5,
                })
            });
        }
    }
}

/// Tensors of odd lengths, each of `count` memories, the last of which is the copy in a compute type; values are `of` random
/// numbers.
fn tensors(dtype: DType, number: usize, count: usize, of: fn(f64) -> f64) -> Vec<Memory> {
    let memory = |tensor: usize, which: usize| {
        let len = if tensor == 1 { 20_003 } else { 3 * tensor };
        let compute = if dtype == DType::F32 {
            FLOATS[1 + tensor % 3].0
        } else {
            DType::F64
        };
        let values: Vec<f64> = random(len, (tensor * count + which) as u64)
            .iter()
            .map(|x| of(*x))
            .collect();
        let dtype = if which == count - 1 { compute } else { dtype };
        Memory::new(dtype, &values, tensor % 2)
    };
    (0..number)
        .flat_map(|tensor| (0..count).map(move |which| memory(tensor, which)))
        .collect()
}

fn adamw(m: &[RawSlice]) -> Kernel {
    let (factor, memories) = m.split_last().unwrap();
    let tensor = |(index, m): (usize, &[RawSlice])| AdamWTensor {
        weights: m[0],
        gradients: m[1],
        first: m[2],
        second: m[3],
        compute: (index % 5 != 4).then_some(m[4]),
        weight_decay: 0.1 * (index % 2) as f64,
    };
    let tensors = memories.chunks(5).enumerate().map(tensor).collect();
    let (rate, beta1, beta2, epsilon) = (1e-2, 0.9, 0.95, 1e-8);
    Kernel::AdamW(AdamW {
        tensors,
        factor: *factor,
        rate,
        beta1,
        beta2,
        epsilon,
        step: 3,
    })
}

fn sgd(m: &[RawSlice]) -> Kernel {
    let (factor, memories) = m.split_last().unwrap();
    let tensor = |(index, m): (usize, &[RawSlice])| SgdTensor {
        weights: m[0],
        gradients: m[1],
        velocity: (index % 3 != 2).then_some(m[2]),
        compute: (index % 5 != 4).then_some(m[3]),
        weight_decay: 0.1 * (index % 2) as f64,
    };
    let tensors = memories.chunks(4).enumerate().map(tensor).collect();
    Kernel::Sgd(Sgd {
        tensors,
        factor: *factor,
        rate: 1e-2,
        momentum: 0.9,
    })
}

fn lion(m: &[RawSlice]) -> Kernel {
    let (factor, memories) = m.split_last().unwrap();
    let tensor = |(index, m): (usize, &[RawSlice])| LionTensor {
        weights: m[0],
        gradients: m[1],
        momentum: m[2],
        compute: (index % 5 != 4).then_some(m[3]),
        weight_decay: 0.1 * (index % 2) as f64,
    };
    let tensors = memories.chunks(4).enumerate().map(tensor).collect();
    Kernel::Lion(Lion {
        tensors,
        factor: *factor,
        rate: 1e-2,
        beta1: 0.9,
        beta2: 0.99,
    })
}

fn momentum(m: &[RawSlice]) -> Kernel {
    let (factor, memories) = m.split_last().unwrap();
    let tensor = |m: &[RawSlice]| MomentumTensor {
        gradients: m[0],
        momentum: m[1],
    };
    Kernel::Momentum(Momentum {
        tensors: memories.chunks(3).map(tensor).collect(),
        factor: *factor,
        beta: 0.95,
    })
}

#[test]
fn a_matrix_over_its_norm_agrees() {
    for (out, _) in FLOATS {
        let dtype = out.accumulator();
        for (len, squares) in [(1, 4.0), (77, 0.0), (70_001, 2.5e4)] {
            let memories = [
                Memory::new(dtype, &random(len, 3), 0),
                Memory::new(DType::F64, &[squares], 0),
                Memory::new(out, &vec![9.0; len], 1),
            ];
            compare(&memories, 1e-15, |m| {
                Kernel::UnitNorm(UnitNorm {
                    x: m[0],
                    sum_squares: m[1],
                    out: m[2],
                    epsilon: 1e-7,
                })
            });
        }
    }
}

#[test]
fn updates_agree_and_are_skipped_for_a_factor_that_is_not_a_number() {
    for (dtype, spacing) in [(DType::F64, 2.3e-16), (DType::F32, 1.2e-7)] {
        for factor in [0.7, f64::NAN] {
            let factor = Memory::new(DType::F64, &[factor], 0);
            // A compute copy may round to the other neighbour where weights differ in their last digit.
            let tolerance = if dtype == DType::F32 {
                7.9e-3
            } else {
                4.0 * spacing
            };
            let with = |mut memories: Vec<Memory>| {
                memories.push(factor.clone());
                memories
            };
            compare(&with(tensors(dtype, 50, 5, f64::abs)), tolerance, adamw);
            compare(&with(tensors(dtype, 70, 4, f64::abs)), tolerance, sgd);
            let signed = tensors(dtype, 70, 4, |x| x);
            compare(&with(signed), tolerance, lion);
            let signed = tensors(dtype, 110, 3, |x| x);
            compare(&with(signed), tolerance, momentum);
        }
    }
}
