use super::*;
use crate::codes;
use hal::{
    kernel::Dequantise,
    quantised::{Quantised, QuantisedPart},
};

/// Complete blocks with a shorter last one, parts of two blocks, within one, rows of odd length, and an element.
const PARTS: [[usize; 3]; 5] = [
    [3, 200, 0],
    [70, 300, 100],
    [9, 32, 32],
    [11, 7, 61],
    [1, 1, 0],
];

#[test]
fn weights_are_shares_of_their_scales() {
    for format in Quantised::ALL {
        for [rows, columns, first_column] in PARTS {
            let part = QuantisedPart {
                format,
                rows,
                columns,
                first_column,
            };
            let numbers = random(DType::F64, rows * columns, 3);
            let stored = part.store(1, &numbers, &part.scales(&numbers));
            let weights: Vec<f64> = codes::tests::numbers(&part, &stored)
                .into_iter()
                .map(f64::from)
                .collect();
            let bytes: Vec<f64> = stored.iter().map(|&byte| byte.into()).collect();
            for dtype in FLOATS {
                let out = vec![9.0; rows * columns];
                let memories = [(DType::U8, bytes.clone()), (dtype, out)];
                let found = run(&memories, |m| {
                    Kernel::Dequantise(Dequantise {
                        stored: m[0],
                        out: m[1],
                        part,
                    })
                });
                assert_eq!(found[1], rounded(dtype, &weights), "{part:?} {dtype}");
            }
        }
    }
}
