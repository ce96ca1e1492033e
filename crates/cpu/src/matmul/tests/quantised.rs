//! Products with codes have the bits of products with what they stand for.

use super::*;
use crate::codes;
use hal::quantised::{MOST_ROWS, Quantised, QuantisedPart};

// Columns within a block, of several, and of parts of them; terms of less than a leaf and of many.
const PARTS: [[usize; 3]; 6] = [
    [1, 1, 0],
    [40, 7, 61],
    [33, 300, 100],
    [130, 128, 64],
    [257, 1000, 8],
    [700, 513, 1],
];

fn bits<C: Element>(elements: &[C]) -> Vec<u64> {
    elements.iter().map(|x| x.acc().wide().to_bits()).collect()
}

fn agrees<T: Element, C: Element>(types: [DType; 2], part: QuantisedPart, rows: usize) {
    let (k, n) = (part.rows, part.columns);
    let numbers: Vec<f64> = values::<f64>(k * n, 1);
    let stored = part.store(1, &numbers, &part.scales(&numbers));
    let weights = codes::tests::numbers(&part, &stored).into_iter();
    let mut weights: Vec<T> = weights.map(|one| T::nearest(one.into())).collect();
    // Aligned as the seam asks for.
    let mut aligned = vec![0u128; stored.len() / 16];
    bytemuck::cast_slice_mut(&mut aligned).copy_from_slice(&stored);
    let mut a: Vec<T> = values(rows * k, 2);
    let nan = C::from_acc(C::Acc::of(f64::NAN));
    for leaf in [hal::sums::leaf(k), 16] {
        let (mut expected, mut found) = (vec![nan; rows * n], vec![nan; rows * n]);
        let matrix = |data, leading| Matrix {
            data,
            leading,
            transposed: false,
        };
        let gemm = Gemm {
            m: rows,
            n,
            k,
            leaf,
            a: matrix(raw(&mut a, types[0]), k),
            b: matrix(raw(&mut weights, types[0]), n),
            c: matrix(raw(&mut expected, types[1]), n),
            alpha: 1.0,
            beta: 0.0,
            batch: Batch::ONE,
            epilogue: Epilogue::None,
        };
        let call = QuantisedMatmul {
            a: gemm.a.data,
            stored: RawSlice {
                addr: aligned.as_mut_ptr() as u64,
                len: stored.len(),
                dtype: DType::U8,
            },
            out: raw(&mut found, types[1]),
            part,
            rows,
            leaf,
        };
        for threads in [1, 3] {
            let pool = Pool::new(threads).unwrap();
            found.fill(nan);
            // SAFETY: the vectors are live and hold the matrices.
            unsafe {
                super::gemm(&gemm, &pool).unwrap();
                super::quantised(&call, &pool).unwrap();
            }
            let same = bits(&found) == bits(&expected);
            assert!(same, "{part:?} {types:?} {rows} rows, leaf {leaf}");
        }
    }
}

#[test]
fn a_product_with_codes_has_the_bits_of_one_with_their_weights() {
    for format in Quantised::ALL {
        for [k, n, first_column] in PARTS {
            let part = QuantisedPart {
                format,
                rows: k,
                columns: n,
                first_column,
            };
            for rows in [1, 3, MOST_ROWS] {
                agrees::<f64, f64>([DType::F64, DType::F64], part, rows);
                agrees::<f32, f32>([DType::F32, DType::F32], part, rows);
                agrees::<bf16, bf16>([DType::Bf16, DType::Bf16], part, rows);
                agrees::<bf16, f32>([DType::Bf16, DType::F32], part, rows);
                agrees::<f16, f16>([DType::F16, DType::F16], part, rows);
                agrees::<f16, f32>([DType::F16, DType::F32], part, rows);
            }
        }
    }
}
