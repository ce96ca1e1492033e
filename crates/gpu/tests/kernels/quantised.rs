//! What quantised weights stand for: the bits of the reference vendor.

use crate::{
    machine::compare,
    memory::{Memory, random},
};
use hal::{
    DType, Kernel,
    kernel::Dequantise,
    quantised::{Quantised, QuantisedPart},
};

#[test]
fn weights_have_the_same_bits() {
    // Complete blocks, parts of two, within one, rows of odd length, and more elements than a grid's threads move at once.
    let parts = [
        [3, 256, 0],
        [7, 300, 100],
        [9, 32, 32],
        [11, 7, 61],
        [1, 1, 0],
        [40, 1000, 8],
    ];
    for format in Quantised::ALL {
        for [rows, columns, first_column] in parts {
            let part = QuantisedPart {
                format,
                rows,
                columns,
                first_column,
            };
            let numbers = random(rows * columns, 5);
            let stored = part.store(1, &numbers, &part.scales(&numbers));
            let bytes: Vec<f64> = stored.iter().map(|&byte| byte.into()).collect();
            for (index, dtype) in [DType::F64, DType::F32, DType::Bf16, DType::F16]
                .into_iter()
                .enumerate()
            {
                let memories = [
                    Memory::new(DType::U8, &bytes, 0),
                    Memory::new(dtype, &vec![9.0; rows * columns], index % 3),
                ];
                compare(&memories, 0.0, |m| {
                    Kernel::Dequantise(Dequantise {
                        stored: m[0],
                        out: m[1],
                        part,
                    })
                });
            }
        }
    }
}
