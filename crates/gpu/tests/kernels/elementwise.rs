//! Fill, cast, scaled sum, the four operations, activation functions.

use crate::{
    machine::compare,
    memory::{FLOATS, Memory, random},
};
use hal::{
    DType, Kernel, RawSlice,
    kernel::{
        Axpby, Binary, BinaryOp, Cast, Fill, Swiglu, SwigluBackward, Unary, UnaryBackward, UnaryOp,
    },
};

/// Lengths around a pack, a warp and a block, each with and without a start that is aligned to 16 bytes.
const SIZES: [(usize, usize); 5] = [(1, 0), (7, 1), (64, 0), (1000, 3), (5003, 0)];

fn memories(dtype: DType, len: usize, before: usize, count: u64) -> Vec<Memory> {
    (0..count)
        .map(|seed| Memory::new(dtype, &random(len, seed), before))
        .collect()
}

#[test]
fn fill_writes_every_type() {
    for (dtype, (len, before)) in DType::ALL
        .into_iter()
        .flat_map(|dtype| SIZES.map(|size| (dtype, size)))
    {
        for value in [0.0, 3.1] {
            compare(&memories(dtype, len, before, 1), 0.0, |m| {
                Kernel::Fill(Fill { out: m[0], value })
            });
        }
    }
}

#[test]
fn cast_rounds_once_between_all_types() {
    for (from, to) in FLOATS
        .iter()
        .flat_map(|from| FLOATS.map(|to| (from.0, to.0)))
    {
        for (len, before) in SIZES {
            let x = Memory::new(from, &random(len, 1), before);
            let out = Memory::new(to, &vec![0.0; len], before);
            compare(&[x, out], 0.0, |m| {
                Kernel::Cast(Cast { x: m[0], out: m[1] })
            });
        }
    }
}

#[test]
fn cast_keeps_what_is_not_a_number() {
    let values = [
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1e30,
        -1e-30,
        70_000.0,
        6e-8,
        1.0 + 1e-12,
    ];
    for (from, to) in FLOATS
        .iter()
        .flat_map(|from| FLOATS.map(|to| (from.0, to.0)))
    {
        let memories = [Memory::new(from, &values, 0), Memory::new(to, &[0.0; 8], 0)];
        compare(&memories, 0.0, |m| {
            Kernel::Cast(Cast { x: m[0], out: m[1] })
        });
    }
}

#[test]
fn axpby_scales_and_adds() {
    for ((from, _), (to, spacing)) in FLOATS.iter().flat_map(|from| FLOATS.map(|to| (from, to))) {
        for ((len, before), beta) in SIZES
            .iter()
            .flat_map(|&size| [0.0, 0.5].map(|beta| (size, beta)))
        {
            let x = Memory::new(*from, &random(len, 1), before);
            let old = if beta == 0.0 {
                vec![f64::NAN; len]
            } else {
                random(len, 2)
            };
            let y = Memory::new(to, &old, before);
            compare(&[x, y], spacing, |m| {
                Kernel::Axpby(Axpby {
                    x: m[0],
                    y: m[1],
                    alpha: 1.5,
                    beta,
                })
            });
        }
    }
}

#[test]
fn binary_operations_agree() {
    for ((dtype, spacing), (len, before)) in FLOATS.iter().flat_map(|f| SIZES.map(|size| (f, size)))
    {
        for op in [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div] {
            for out in [0, 2] {
                compare(&memories(*dtype, len, before, 3), *spacing, |m| {
                    Kernel::Binary(Binary {
                        op,
                        a: m[0],
                        b: m[1],
                        out: m[out],
                    })
                });
            }
        }
    }
}

#[test]
fn a_shorter_second_operand_is_repeated() {
    for ((dtype, spacing), (rows, columns)) in FLOATS
        .iter()
        .flat_map(|f| [(9, 1), (5, 3), (4, 32), (3, 37), (70, 6)].map(|size| (f, size)))
    {
        for op in [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div] {
            compare(&memories(*dtype, rows * columns, 0, 3), *spacing, |m| {
                let b = RawSlice {
                    len: columns,
                    ..m[1]
                };
                Kernel::Binary(Binary {
                    op,
                    a: m[0],
                    b,
                    out: m[2],
                })
            });
        }
    }
}

#[test]
fn activations_and_their_gradients_agree() {
    for ((dtype, spacing), (len, before)) in FLOATS.iter().flat_map(|f| SIZES.map(|size| (f, size)))
    {
        for op in UnaryOp::ALL {
            let tolerance = 4.0 * spacing;
            compare(&memories(*dtype, len, before, 2), tolerance, |m| {
                Kernel::Unary(Unary {
                    op,
                    x: m[0],
                    out: m[1],
                })
            });
            compare(&memories(*dtype, len, before, 2), tolerance, |m| {
                Kernel::UnaryBackward(UnaryBackward {
                    op,
                    x: m[0],
                    d_out: m[1],
                    d_x: m[1],
                })
            });
        }
    }
}

#[test]
fn activations_saturate() {
    for (dtype, spacing) in FLOATS {
        let x = Memory::new(dtype, &[-60_000.0, -100.0, 100.0, 60_000.0, f64::NAN], 0);
        for op in UnaryOp::ALL {
            compare(&[x.clone(), x.clone()], spacing, |m| {
                Kernel::Unary(Unary {
                    op,
                    x: m[0],
                    out: m[1],
                })
            });
        }
    }
}

#[test]
fn swiglu_and_its_gradients_agree() {
    for ((dtype, spacing), (len, before)) in FLOATS.iter().flat_map(|f| SIZES.map(|size| (f, size)))
    {
        compare(&memories(*dtype, len, before, 3), 4.0 * spacing, |m| {
            Kernel::Swiglu(Swiglu {
                gate: m[0],
                up: m[1],
                out: m[2],
            })
        });
        compare(&memories(*dtype, len, before, 3), 4.0 * spacing, |m| {
            Kernel::SwigluBackward(SwigluBackward {
                gate: m[0],
                up: m[1],
                d_out: m[2],
                d_gate: m[0],
                d_up: m[1],
            })
        });
    }
}
