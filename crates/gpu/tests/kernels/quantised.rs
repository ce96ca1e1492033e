//! What quantised weights stand for: the bits of the reference vendor; and products with them.

use crate::{
    machine::compare,
    memory::{FLOATS, Memory, random},
};
use hal::{
    DType, Kernel,
    kernel::{Dequantise, QuantisedMatmul},
    quantised::{MOST_ROWS, Quantised, QuantisedPart},
};

// Complete blocks, parts of two, within one, and rows of odd length.
const PARTS: [[usize; 3]; 6] = [
    [3, 256, 0],
    [7, 300, 100],
    [9, 32, 32],
    [11, 7, 61],
    [1, 1, 0],
    [40, 1000, 8],
];

fn stored(part: &QuantisedPart) -> Memory {
    let numbers = random(part.rows * part.columns, 5);
    let stored = part.store(1, &numbers, &part.scales(&numbers));
    let bytes: Vec<f64> = stored.iter().map(|&byte| byte.into()).collect();
    Memory::new(DType::U8, &bytes, 0)
}

#[test]
fn weights_have_the_same_bits() {
    for format in Quantised::ALL {
        for [rows, columns, first_column] in PARTS {
            let part = QuantisedPart {
                format,
                rows,
                columns,
                first_column,
            };
            for (index, (dtype, _)) in FLOATS.into_iter().enumerate() {
                let memories = [
                    stored(&part),
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

// Terms that each thread reads alone, several at a time, and both.
const TERMS: [usize; 4] = [1, 33, 256, 300];

#[test]
fn products_with_codes_are_those_with_their_weights() {
    for format in Quantised::ALL {
        for (index, [_, columns, first_column]) in PARTS.into_iter().enumerate() {
            for (at, (dtype, spacing)) in FLOATS.into_iter().enumerate() {
                let part = QuantisedPart {
                    format,
                    rows: TERMS[(index + at) % TERMS.len()],
                    columns,
                    first_column,
                };
                for (rows, out) in [
                    (1, dtype),
                    (3, dtype.accumulator()),
                    (MOST_ROWS, dtype),
                    (0, dtype),
                ] {
                    let memories = [
                        Memory::new(dtype, &random(rows * part.rows, 7), index % 2),
                        stored(&part),
                        Memory::new(out, &vec![9.0; rows * columns], at % 3),
                    ];
                    compare(&memories, 4.0 * spacing, |m| {
                        Kernel::QuantisedMatmul(QuantisedMatmul {
                            a: m[0],
                            stored: m[1],
                            out: m[2],
                            part,
                            rows,
                            leaf: hal::sums::leaf(part.rows),
                        })
                    });
                }
            }
        }
    }
}
