//! LayerNorm and RMSNorm, over whole rows and over shards.

use crate::{
    machine::compare,
    memory::{FLOATS, Memory, random},
};
use hal::{
    DType, Kernel,
    kernel::{
        CombineMoments, Moments, NormKind, NormShape, Normalize, NormalizeBackward, NormalizeSums,
    },
};

const SHAPES: [(usize, usize, usize); 4] = [(1, 3, 0), (9, 64, 0), (35, 130, 1), (2100, 16, 0)];

fn shapes(rows: usize, columns: usize) -> [NormShape; 3] {
    let global_columns = 2 * columns;
    NormKind::ALL.map(|kind| NormShape {
        kind,
        rows,
        columns,
        global_columns,
        epsilon: 1e-5,
    })
}

fn each(test: impl Fn(DType, f64, NormShape, usize)) {
    for ((dtype, spacing), (rows, columns, before)) in
        FLOATS.iter().flat_map(|f| SHAPES.map(|s| (f, s)))
    {
        for shape in shapes(rows, columns) {
            test(*dtype, *spacing, shape, before);
        }
    }
}

/// Means near 0 and sums of squares of `columns` numbers, as if of whole rows.
fn moments(dtype: DType, shape: NormShape) -> Memory {
    let draws = random(2 * shape.rows, 9);
    let value = |(index, x): (usize, &f64)| {
        if index % 2 == 0 {
            0.1 * x
        } else {
            (1.0 + x * x) * shape.columns as f64
        }
    };
    let values: Vec<f64> = draws.iter().enumerate().map(value).collect();
    Memory::new(dtype.accumulator(), &values, 0)
}

#[test]
fn moments_agree() {
    each(|dtype, spacing, shape, before| {
        let x: Vec<f64> = random(shape.rows * shape.columns, 1)
            .iter()
            .map(|x| x + 3.0)
            .collect();
        let out = Memory::new(dtype.accumulator(), &vec![0.0; 2 * shape.rows], 0);
        compare(
            &[Memory::new(dtype, &x, before), out],
            8.0 * spacing.min(1.2e-7),
            |m| {
                Kernel::Moments(Moments {
                    shape,
                    x: m[0],
                    moments: m[1],
                })
            },
        );
    });
}

#[test]
fn moments_of_shards_combine() {
    for (dtype, spacing) in [(DType::F64, 2.3e-16), (DType::F32, 1.2e-7)] {
        for shape in shapes(301, 33) {
            let parts: Vec<f64> = random(2 * 2 * shape.rows, 1)
                .iter()
                .map(|x| x.abs())
                .collect();
            let memories = [
                Memory::new(dtype, &parts, 0),
                Memory::new(dtype, &vec![0.0; 2 * shape.rows], 0),
            ];
            compare(&memories, 4.0 * spacing, |m| {
                Kernel::CombineMoments(CombineMoments {
                    shape,
                    parts: m[0],
                    widths: vec![shape.columns; 2],
                    moments: m[1],
                })
            });
        }
    }
}

#[test]
fn rows_are_normalised() {
    each(|dtype, spacing, shape, before| {
        let len = shape.rows * shape.columns;
        let own = |len, seed| Memory::new(dtype, &random(len, seed), before);
        let memories = [
            own(len, 1),
            moments(dtype, shape),
            own(shape.columns, 2),
            own(shape.columns, 3),
            own(len, 4),
        ];
        compare(&memories, 2.0 * spacing, |m| {
            let bias = (shape.kind == NormKind::Layer).then_some(m[3]);
            Kernel::Normalize(Normalize {
                shape,
                x: m[0],
                moments: m[1],
                gain: m[2],
                bias,
                out: m[4],
            })
        });
    });
}

#[test]
fn gradients_of_norms_agree() {
    each(|dtype, spacing, shape, before| {
        let len = shape.rows * shape.columns;
        let own = |len, seed| Memory::new(dtype, &random(len, seed), before);
        let wide = |len, seed| Memory::new(dtype.accumulator(), &random(len, seed), 0);
        let (x, gain, d_out) = (own(len, 1), own(shape.columns, 2), own(len, 3));
        let sums = [
            wide(2 * shape.rows, 4),
            wide(shape.columns, 5),
            wide(shape.columns, 6),
        ];
        let inputs = [x, moments(dtype, shape), gain, d_out];
        let memories = [inputs.to_vec(), sums.to_vec()].concat();
        for beta in [1.0, 0.0] {
            compare(&memories, 16.0 * spacing.min(1.2e-7), |m| {
                Kernel::NormalizeSums(NormalizeSums {
                    shape,
                    x: m[0],
                    moments: m[1],
                    gain: m[2],
                    d_out: m[3],
                    sums: m[4],
                    d_gain: m[5],
                    d_bias: (shape.kind == NormKind::Layer).then_some(m[6]),
                    beta,
                })
            });
        }
        compare(&memories[..5], 4.0 * spacing, |m| {
            Kernel::NormalizeBackward(NormalizeBackward {
                shape,
                x: m[0],
                moments: m[1],
                gain: m[2],
                d_out: m[3],
                sums: m[4],
                d_x: m[3],
            })
        });
    });
}
