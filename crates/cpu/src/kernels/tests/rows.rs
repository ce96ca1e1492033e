use super::*;
use hal::kernel::{
    CopyStrided, RowSum, SelectRows, Softmax, SoftmaxBackward, Unary, UnaryBackward, UnaryOp,
};

const SHAPES: [(usize, usize); 5] = [(1, 1), (3, 5), (40, 33), (7, 900), (2500, 8)];

#[test]
fn rows_are_summed() {
    for (dtype, (rows, columns)) in FLOATS.iter().flat_map(|&d| SHAPES.map(|s| (d, s))) {
        let x = random(dtype, rows * columns, 1);
        let expected: Vec<f64> = x.chunks(columns).map(|row| row.iter().sum()).collect();
        let memories = [(dtype, x), (dtype, vec![9.0; rows])];
        let found = run(&memories, |m| {
            Kernel::RowSum(RowSum {
                x: m[0],
                out: m[1],
                rows,
                columns,
            })
        });
        assert_close(dtype, &found[1], &expected, columns as f64);
    }
}

fn softmax(x: &[f64], columns: usize, log: bool) -> Vec<f64> {
    let row = |row: &[f64]| {
        let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
        let each = |x: &f64| match log {
            true => x - max - sum.ln(),
            false => (x - max).exp() / sum,
        };
        row.iter().map(each).collect::<Vec<_>>()
    };
    x.chunks(columns).flat_map(row).collect()
}

fn run_softmax(dtype: DType, x: &[f64], columns: usize, log: bool) -> Vec<f64> {
    let memories = [(dtype, x.to_vec()), (dtype, vec![9.0; x.len()])];
    let found = run(&memories, |m| {
        Kernel::Softmax(Softmax {
            x: m[0],
            out: m[1],
            rows: x.len() / columns,
            columns,
            log,
        })
    });
    found[1].clone()
}

#[test]
fn softmax_matches_its_formula() {
    for (dtype, (rows, columns)) in FLOATS.iter().flat_map(|&d| SHAPES.map(|s| (d, s))) {
        for log in [false, true] {
            let x = random(dtype, rows * columns, 1);
            let found = run_softmax(dtype, &x, columns, log);
            assert_close(dtype, &found, &softmax(&x, columns, log), 32.0);
        }
    }
    // Large numbers cause no overflow.
    let large = run_softmax(DType::F64, &[1000.0, 1000.0, -1000.0], 3, false);
    assert_eq!(large, [0.5, 0.5, 0.0]);
}

#[test]
fn softmax_backward_is_the_derivative() {
    let (rows, columns) = (3, 7);
    let (x, d_out) = (random(DType::F64, 21, 1), random(DType::F64, 21, 2));
    for log in [false, true] {
        let expected = finite_differences(&x, |x| dot(&softmax(x, columns, log), &d_out));
        let out = run_softmax(DType::F64, &x, columns, log);
        let memories = [out, d_out.clone(), vec![9.0; 21]].map(|values| (DType::F64, values));
        for d_x in [2, 1] {
            let found = run(&memories, |m| {
                Kernel::SoftmaxBackward(SoftmaxBackward {
                    out: m[0],
                    d_out: m[1],
                    d_x: m[d_x],
                    rows,
                    columns,
                    log,
                })
            });
            assert_gradient(&found[d_x], &expected);
        }
    }
}

#[test]
fn dims_are_permuted_and_repeated() {
    for dtype in DType::ALL {
        for (sizes, strides) in [
            ([1, 1, 7, 5], [0, 0, 1, 7]),
            ([2, 3, 4, 5], [60, 5, 15, 1]),
            ([1, 1, 9, 4], [0, 0, 1, 0]),
            ([1, 0, 9, 4], [0, 0, 1, 0]),
        ] {
            let src: Vec<f64> = (0..121).map(f64::from).collect();
            let len = sizes.iter().product();
            let found = run(&[(dtype, src), (dtype, vec![0.0; len])], |m| {
                let (src, dst) = (m[0], m[1]);
                Kernel::CopyStrided(CopyStrided {
                    src,
                    dst,
                    sizes,
                    strides,
                })
            });
            let index = |i: usize| {
                let (i, l) = (i / sizes[3], i % sizes[3]);
                let (i, k) = (i / sizes[2], i % sizes[2]);
                let (i, j) = (i / sizes[1], i % sizes[1]);
                i * strides[0] + j * strides[1] + k * strides[2] + l * strides[3]
            };
            let expected: Vec<f64> = (0..len).map(|i| index(i) as f64).collect();
            assert_eq!(found[1], expected, "{dtype}, {sizes:?}");
        }
    }
}

#[test]
fn rows_are_chosen_by_a_mask() {
    let mask = (DType::U32, vec![1.0, 0.0, 5.0]);
    for dtype in DType::ALL {
        let [a, b, out] = [[1.0; 6], [2.0; 6], [9.0; 6]].map(|x| (dtype, x.to_vec()));
        let memories = [mask.clone(), a, b, out];
        for (a, b, expected) in [
            (true, true, [1.0, 1.0, 2.0, 2.0, 1.0, 1.0]),
            (true, false, [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]),
            (false, true, [0.0, 0.0, 2.0, 2.0, 0.0, 0.0]),
        ] {
            let found = run(&memories, |m| {
                Kernel::SelectRows(SelectRows {
                    mask: m[0],
                    a: a.then_some(m[1]),
                    b: b.then_some(m[2]),
                    out: m[3],
                    rows: 3,
                    columns: 2,
                })
            });
            assert_eq!(found[3], expected, "{dtype}");
        }
    }
}

// Functions defined only for positive numbers, which the other tests of unary functions skip.
#[test]
fn logarithm_and_root_match_their_formulas() {
    type Formula = fn(f64) -> f64;
    let ops: [(UnaryOp, Formula, Formula); 2] = [
        (UnaryOp::Log, f64::ln, |x| 1.0 / x),
        (UnaryOp::Sqrt, f64::sqrt, |x| 0.5 / x.sqrt()),
    ];
    for (dtype, (op, function, slope)) in FLOATS.iter().flat_map(|&d| ops.map(|op| (d, op))) {
        let x: Vec<f64> = random(dtype, 77, 1)
            .iter()
            .map(|x| x.abs() + 0.25)
            .collect();
        let x = rounded(dtype, &x);
        let of = |f: Formula| x.iter().map(|&x| f(x)).collect::<Vec<_>>();
        let memories = [x.clone(), vec![0.0; 77], vec![1.0; 77]].map(|values| (dtype, values));
        let found = run(&memories, |m| {
            let (x, out) = (m[0], m[1]);
            Kernel::Unary(Unary { op, x, out })
        });
        assert_close(dtype, &found[1], &of(function), 8.0);
        let found = run(&memories, |m| {
            Kernel::UnaryBackward(UnaryBackward {
                op,
                x: m[0],
                d_out: m[2],
                d_x: m[1],
            })
        });
        assert_close(dtype, &found[1], &of(slope), 8.0);
    }
}
