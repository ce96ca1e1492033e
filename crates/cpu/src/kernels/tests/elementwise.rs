use super::*;
use hal::kernel::{Axpby, Binary, BinaryOp, Cast, Copy2d, Fill};

const SIZES: [usize; 6] = [0, 1, 7, 17, 33, 100_003];

#[test]
fn fill_converts_to_every_type() {
    for dtype in DType::ALL {
        for len in SIZES {
            let filled = run(&[(dtype, vec![1.0; len])], |m| {
                Kernel::Fill(Fill {
                    out: m[0],
                    value: 3.7,
                })
            });
            assert_eq!(filled[0], rounded(dtype, &vec![3.7; len]));
        }
    }
}

#[test]
fn cast_rounds_to_nearest_even() {
    for (from, to) in FLOATS.iter().flat_map(|&from| FLOATS.map(|to| (from, to))) {
        for len in SIZES {
            let mut x = random(from, len, 1);
            x.iter_mut().step_by(5).for_each(|x| *x *= 1e-7);
            x.iter_mut()
                .skip(3)
                .step_by(11)
                .for_each(|x| *x = f64::INFINITY);
            let x = rounded(from, &x);
            let result = run(&[(from, x.clone()), (to, vec![0.0; len])], |m| {
                Kernel::Cast(Cast { x: m[0], out: m[1] })
            });
            assert_eq!(result[1], rounded(to, &x), "{from} to {to}");
        }
    }
}

#[test]
fn axpby_takes_two_types() {
    for (of_x, of_y) in FLOATS.iter().flat_map(|&x| FLOATS.map(|y| (x, y))) {
        for len in SIZES {
            let (x, y) = (random(of_x, len, 1), random(of_y, len, 2));
            let expected: Vec<f64> = x.iter().zip(&y).map(|(x, y)| 0.3 * x - 1.7 * y).collect();
            let result = run(&[(of_x, x), (of_y, y)], |m| {
                Kernel::Axpby(Axpby {
                    x: m[0],
                    y: m[1],
                    alpha: 0.3,
                    beta: -1.7,
                })
            });
            assert_close(of_y, &result[1], &expected, 8.0);
        }
    }
}

#[test]
fn axpby_with_beta_0_does_not_read_y() {
    for dtype in FLOATS {
        let x = random(dtype, 33, 1);
        let result = run(&[(dtype, x.clone()), (dtype, vec![f64::NAN; 33])], |m| {
            Kernel::Axpby(Axpby {
                x: m[0],
                y: m[1],
                alpha: -2.0,
                beta: 0.0,
            })
        });
        assert_eq!(result[1], x.iter().map(|x| x * -2.0).collect::<Vec<_>>());
        let in_place = run(&[(dtype, x.clone())], |m| {
            Kernel::Axpby(Axpby {
                x: m[0],
                y: m[0],
                alpha: 0.5,
                beta: 0.5,
            })
        });
        assert_eq!(in_place[0], x);
    }
}

#[test]
fn binary_computes_beside_and_in_place() {
    type Operation = (BinaryOp, fn(f64, f64) -> f64);
    let operations: [Operation; 4] = [
        (BinaryOp::Add, |a, b| a + b),
        (BinaryOp::Sub, |a, b| a - b),
        (BinaryOp::Mul, |a, b| a * b),
        (BinaryOp::Div, |a, b| a / b),
    ];
    for (dtype, len) in FLOATS
        .iter()
        .flat_map(|&dtype| SIZES.map(|len| (dtype, len)))
    {
        for (op, reference) in operations {
            let (a, b) = (random(dtype, len, 1), random(dtype, len, 2));
            let b = rounded(
                dtype,
                &b.iter().map(|b| b.signum() + b / 2.0).collect::<Vec<_>>(),
            );
            let expected: Vec<f64> = a.iter().zip(&b).map(|(&a, &b)| reference(a, b)).collect();
            let memories = [(dtype, a), (dtype, b), (dtype, vec![0.0; len])];
            for out in [2, 0, 1] {
                let result = run(&memories, |m| {
                    Kernel::Binary(Binary {
                        op,
                        a: m[0],
                        b: m[1],
                        out: m[out],
                    })
                });
                assert_close(dtype, &result[out], &expected, 4.0);
            }
        }
    }
}

#[test]
fn binary_repeats_a_shorter_second_operand() {
    for dtype in FLOATS {
        for (rows, columns) in [
            (7, 1),
            (5, 3),
            (40, 31),
            (3, 33),
            (1, 64),
            (900, 50),
            (0, 4),
        ] {
            let (a, b) = (random(dtype, rows * columns, 1), random(dtype, columns, 2));
            let expected: Vec<f64> = (0..rows * columns).map(|i| a[i] * b[i % columns]).collect();
            let result = run(&[(dtype, a), (dtype, b)], |m| {
                Kernel::Binary(Binary {
                    op: BinaryOp::Mul,
                    a: m[0],
                    b: m[1],
                    out: m[0],
                })
            });
            assert_close(dtype, &result[0], &expected, 4.0);
        }
    }
}

#[test]
fn copy_2d_moves_blocks_of_every_type() {
    for dtype in DType::ALL {
        for (rows, columns, from, to) in [
            (3, 7, 9, 8),
            (0, 4, 4, 4),
            (1, 1, 1, 1),
            (700, 33, 40, 33),
            (500, 77, 77, 77),
        ] {
            let len = |leading: usize| {
                if rows == 0 {
                    0
                } else {
                    (rows - 1) * leading + columns
                }
            };
            let src: Vec<f64> = (0..len(from)).map(|i| (i % 199) as f64).collect();
            let result = run(&[(dtype, src.clone()), (dtype, vec![7.0; len(to)])], |m| {
                let (src, dst) = (m[0], m[1]);
                Kernel::Copy2d(Copy2d {
                    src,
                    src_leading: from,
                    dst,
                    dst_leading: to,
                    rows,
                    columns,
                })
            });
            for (index, &value) in result[1].iter().enumerate() {
                let (row, column) = (index / to, index % to);
                let expected = if column < columns {
                    src[row * from + column]
                } else {
                    7.0
                };
                assert_eq!(value, expected, "{dtype}, row {row}, column {column}");
            }
        }
    }
}
