use super::*;
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
            let (shares, codes) = (format.shares(), &stored[part.first_code()..]);
            let expected = |dtype| {
                let of_element = |element: usize| {
                    let code = match format {
                        Quantised::Int8 => codes[element],
                        Quantised::Nf4 => codes[element / 2] >> (element % 2 * 4) & 15,
                    };
                    let at = part.scale_of(element) * 4;
                    let scale = f32::from_ne_bytes(stored[at..at + 4].try_into().unwrap());
                    f64::from(shares[usize::from(code)] * scale)
                };
                let all: Vec<f64> = (0..rows * columns).map(of_element).collect();
                rounded(dtype, &all)
            };
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
                assert_eq!(found[1], expected(dtype), "{part:?} {dtype}");
            }
        }
    }
}
