//! AdamW with 8-bit moments, over more tensors than fit one launch: the bits of the reference vendor.

use crate::{
    machine::compare,
    memory::{Memory, random},
};
use hal::{
    DType, Kernel, RawSlice,
    codes::BlockPlace,
    kernel::{CodedAdamW, CodedAdamWTensor, CodedScales, CodedScalesTensor},
};

const MEMORIES: usize = 9;

/// Parts of rows that begin and end anywhere: of many blocks, within one, across a border, and narrow ones.
fn place(tensor: usize) -> (BlockPlace, usize) {
    let [columns, first_column, start, len] = match tensor % 5 {
        0 => [700, 0, 3, 20_003],
        1 => [96, 96, 17, 500],
        2 => [300, 100, 150, 1000],
        3 => [5, 254, 1, 33],
        _ => [64, 0, 0, 3 * tensor],
    };
    let place = BlockPlace {
        columns,
        first_column,
        start,
    };
    (place, len)
}

/// weights, gradients, copy, codes, scales and next scales of each tensor.
fn memories(dtype: DType, number: usize, factor: f64) -> Vec<Memory> {
    let mut all = Vec::new();
    for tensor in 0..number {
        let (place, len) = place(tensor);
        let blocks = place.blocks(len).end;
        let numbers = |which: usize, len| random(len, (tensor * MEMORIES + which) as u64);
        let positive = |which: usize, least: f64| -> Vec<f64> {
            numbers(which, blocks)
                .iter()
                .map(|x| x.abs() + least)
                .collect()
        };
        let bytes = |which: usize| -> Vec<f64> {
            numbers(which, len)
                .iter()
                .map(|x| (x.abs() * 1e6) % 256.0)
                .collect()
        };
        let compute = match (dtype, tensor % 2) {
            (DType::F32, 0) => DType::Bf16,
            (DType::F32, _) => DType::F16,
            _ => DType::F64,
        };
        all.extend([
            Memory::new(dtype, &numbers(0, len), tensor % 2),
            Memory::new(dtype, &numbers(1, len), tensor % 3),
            Memory::new(compute, &vec![9.0; len], tensor % 2),
            Memory::new(DType::U8, &bytes(3), tensor % 4),
            Memory::new(DType::U8, &bytes(4), tensor % 2),
            Memory::new(dtype, &positive(5, 0.0), 0),
            Memory::new(dtype, &positive(6, 0.0), 1),
            // At least the new moments, of up to 5 deviations.
            Memory::new(dtype, &positive(7, 8.0), 0),
            Memory::new(dtype, &positive(8, 8.0), 0),
        ]);
    }
    all.push(Memory::new(DType::F64, &[factor], 0));
    all
}

fn scales(m: &[RawSlice]) -> Kernel {
    let (factor, memories) = m.split_last().unwrap();
    let tensor = |(index, m): (usize, &[RawSlice])| CodedScalesTensor {
        gradients: m[1],
        codes: [m[3], m[4]],
        scales: [m[5], m[6]],
        next: [m[7], m[8]],
        place: place(index).0,
    };
    let tensors = memories.chunks(MEMORIES).enumerate().map(tensor);
    Kernel::CodedScales(CodedScales {
        tensors: tensors.collect(),
        factor: *factor,
        beta1: 0.9,
        beta2: 0.95,
    })
}

fn adamw(m: &[RawSlice]) -> Kernel {
    let (factor, memories) = m.split_last().unwrap();
    let tensor = |(index, m): (usize, &[RawSlice])| CodedAdamWTensor {
        weights: m[0],
        gradients: m[1],
        compute: (index % 7 != 4).then_some(m[2]),
        codes: [m[3], m[4]],
        scales: [m[5], m[6]],
        next: [m[7], m[8]],
        place: place(index).0,
        weight_decay: 0.1 * (index % 2) as f64,
    };
    let tensors = memories.chunks(MEMORIES).enumerate().map(tensor);
    Kernel::CodedAdamW(CodedAdamW {
        tensors: tensors.collect(),
        factor: *factor,
        rate: 1e-2,
        beta1: 0.9,
        beta2: 0.95,
        epsilon: 1e-8,
        step: 3,
    })
}

#[test]
fn scales_weights_and_codes_have_the_same_bits() {
    for dtype in [DType::F64, DType::F32] {
        for factor in [0.7, f64::NAN] {
            let memories = memories(dtype, 30, factor);
            compare(&memories, 0.0, scales);
            compare(&memories, 0.0, adamw);
        }
    }
}
