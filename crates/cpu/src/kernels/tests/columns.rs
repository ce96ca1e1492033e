use super::*;
use hal::kernel::{AddBias, ColumnSum};

const ROWS: [usize; 4] = [0, 1, 5, 3001];

#[test]
fn add_bias_adds_to_every_row() {
    for (dtype, columns) in FLOATS
        .iter()
        .flat_map(|&dtype| COLUMNS.map(|columns| (dtype, columns)))
    {
        for rows in ROWS {
            let (x, bias) = (random(dtype, rows * columns, 1), random(dtype, columns, 2));
            let expected: Vec<f64> = x
                .iter()
                .enumerate()
                .map(|(i, x)| x + bias[i % columns])
                .collect();
            let result = run(&[(dtype, x), (dtype, bias)], |m| {
                Kernel::AddBias(AddBias {
                    x: m[0],
                    bias: m[1],
                    rows,
                    columns,
                })
            });
            assert_close(dtype, &result[0], &expected, 2.0);
        }
    }
}

#[test]
fn column_sum_adds_to_either_type() {
    for (dtype, columns) in FLOATS
        .iter()
        .flat_map(|&dtype| COLUMNS.map(|columns| (dtype, columns)))
    {
        for (rows, of_out) in ROWS
            .iter()
            .flat_map(|&rows| [(rows, dtype), (rows, dtype.accumulator())])
        {
            let (x, out) = (random(dtype, rows * columns, 1), random(of_out, columns, 2));
            for beta in [1.0, 0.0, 0.5] {
                let held = |c: usize| if beta == 0.0 { f64::NAN } else { out[c] };
                let old: Vec<f64> = (0..columns).map(held).collect();
                let sum = |c: usize| (0..rows).map(|r| x[r * columns + c]).sum::<f64>();
                let column = |c: usize| sum(c) + if beta == 0.0 { 0.0 } else { beta * out[c] };
                let expected: Vec<f64> = (0..columns).map(column).collect();
                let result = run(&[(dtype, x.clone()), (of_out, old)], |m| {
                    Kernel::ColumnSum(ColumnSum {
                        x: m[0],
                        out: m[1],
                        beta,
                        rows,
                        columns,
                    })
                });
                assert_close(of_out, &result[1], &expected, 2.0 + rows as f64 / 8.0);
            }
        }
    }
}

// A chain of 2^20 additions of 0.1 in f32 would be off by 1e-2; parts and lanes keep the sum accurate.
#[test]
fn long_column_sums_keep_their_digits() {
    let rows = 1 << 20;
    let x = rounded(DType::F32, &vec![0.1; rows]);
    let expected = x[0] * rows as f64;
    let result = run(&[(DType::F32, x), (DType::F32, vec![0.0])], |m| {
        Kernel::ColumnSum(ColumnSum {
            x: m[0],
            out: m[1],
            beta: 0.0,
            rows,
            columns: 1,
        })
    });
    assert!(
        (result[1][0] - expected).abs() / expected < 2e-4,
        "{} against {expected}",
        result[1][0]
    );
}
