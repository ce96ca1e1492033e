//! Blocks of matrices, bias, dropout, rotary positions.

use crate::{
    machine::compare,
    memory::{FLOATS, Memory, random},
};
use hal::{
    DType, Kernel,
    kernel::{AddBias, ColumnSum, Copy2d, Dropout, Region, Rope, RotaryFrequencies, RotaryStretch},
    random::Key,
};

/// Rows, columns, and elements before the first.
const SHAPES: [(usize, usize, usize); 5] = [
    (1, 1, 0),
    (3, 5, 1),
    (70, 64, 0),
    (33, 130, 1),
    (2100, 8, 0),
];

#[test]
fn blocks_are_copied() {
    for (dtype, (rows, columns, before)) in DType::ALL
        .iter()
        .flat_map(|d| SHAPES.map(|shape| (*d, shape)))
    {
        for (src_leading, dst_leading) in [(columns, columns), (columns + 3, columns + 8)] {
            let values = random(rows * (columns + 8), 1)
                .iter()
                .map(|x| x.abs() * 100.0)
                .collect::<Vec<_>>();
            let memories = [
                Memory::new(dtype, &values, before),
                Memory::new(dtype, &values[..], before),
            ];
            compare(&memories, 0.0, |m| {
                let [src, dst] = [m[0], m[1]];
                Kernel::Copy2d(Copy2d {
                    src,
                    src_leading,
                    dst,
                    dst_leading,
                    rows,
                    columns,
                })
            });
        }
    }
}

#[test]
fn bias_is_added_and_its_gradient_summed() {
    for ((dtype, spacing), (rows, columns, before)) in
        FLOATS.iter().flat_map(|f| SHAPES.map(|s| (f, s)))
    {
        let x = Memory::new(*dtype, &random(rows * columns, 1), before);
        let bias = Memory::new(*dtype, &random(columns, 2), before);
        compare(&[x.clone(), bias.clone()], *spacing, |m| {
            Kernel::AddBias(AddBias {
                x: m[0],
                bias: m[1],
                rows,
                columns,
            })
        });
        let wide = Memory::new(dtype.accumulator(), &random(columns, 3), before);
        for (out, spacing) in [(bias, *spacing), (wide, spacing.min(1e-6))] {
            // Up to 2100 numbers are added, and each vendor has an order of its own.
            for beta in [1.0, 0.0] {
                compare(&[x.clone(), out.clone()], 16.0 * spacing, |m| {
                    Kernel::ColumnSum(ColumnSum {
                        x: m[0],
                        out: m[1],
                        beta,
                        rows,
                        columns,
                    })
                });
            }
        }
    }
}

#[test]
fn dropout_draws_by_global_index() {
    for ((dtype, spacing), (rows, columns, before)) in
        FLOATS.iter().flat_map(|f| SHAPES.map(|s| (f, s)))
    {
        for (first_row, first_column, global_columns) in [(5, 0, columns), (2, 3, columns + 9)] {
            let region = Region {
                rows,
                columns,
                first_row,
                first_column,
                global_columns,
            };
            let x = Memory::new(*dtype, &random(rows * columns, 1), before);
            compare(&[x], *spacing, |m| {
                let key = Key::new(7, "mask", 3);
                Kernel::Dropout(Dropout {
                    x: m[0],
                    out: m[0],
                    probability: 0.3,
                    key,
                    region,
                })
            });
        }
    }
}

#[test]
fn positions_turn_pairs() {
    for ((dtype, spacing), before) in FLOATS.iter().flat_map(|f| [0, 1].map(|before| (f, before))) {
        // As in Llama 3, and linear.
        let [wide, linear] =
            [(8.0, 256.0, 1024.0), (4.0, 0.0, 0.0)].map(|(factor, short, long)| {
                Some(RotaryStretch {
                    factor,
                    short,
                    long,
                })
            });
        for (heads, head_size, turned, first_position, backward, stretch) in [
            (1, 2, 2, 0, false, None),
            (3, 20, 20, 77, true, None),
            (2, 64, 64, 1000, false, None),
            (2, 64, 64, 1000, false, wide),
            (3, 20, 20, 77, true, wide),
            (1, 16, 16, 5, false, linear),
            (3, 21, 6, 77, true, None),
            (2, 64, 16, 1000, false, None),
        ] {
            let (rows, sequence) = (2 * 1100, 1100);
            let x = Memory::new(*dtype, &random(rows * heads * head_size, 1), before);
            let places: Vec<f64> = (0..rows).map(|row| (row * 37 % 2100) as f64).collect();
            let places = Memory::new(DType::U32, &places, 0);
            // An angle of 2100 radians keeps 13 digits behind the point in f64.
            compare(&[x.clone(), x, places], 2.0 * spacing.max(1e-12), |m| {
                let frequencies = RotaryFrequencies {
                    base: 10_000.0,
                    stretch,
                };
                Kernel::Rope(Rope {
                    x: m[0],
                    out: m[1],
                    rows,
                    sequence,
                    places: backward.then_some(m[2]),
                    first_position,
                    heads,
                    head_size,
                    turned,
                    frequencies,
                    backward,
                })
            });
        }
    }
}
