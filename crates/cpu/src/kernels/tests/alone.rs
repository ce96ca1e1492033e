//! A row or an element has the same bits alone and among others, wherever it lies.

use super::*;
use hal::kernel::{
    AdamW, AdamWTensor, AttentionBackward, AttentionForward, AttentionShape, Cast, ColumnSum,
    CrossEntropyBackward, EmbeddingBackward, EmbeddingForward, NormKind, NormShape, Normalize,
    NormalizeBackward, Rope, Softmax, SoftmaxBackward, Swiglu, SwigluBackward, Unary,
    UnaryBackward, UnaryOp,
};
use std::ops::Range;

/// A type, values, and how many of them belong to each row; 0 if all rows share them.
type Operand = (DType, Vec<f64>, usize);

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Compares rows of one launch with launches of some rows only; `kernel` takes their number.
#[track_caller]
fn assert_rows_alone(
    rows: usize,
    operands: &[Operand],
    kernel: impl Fn(&[RawSlice], usize) -> Kernel,
) {
    let launch = |rows: Range<usize>| {
        let of_rows = |(dtype, values, width): &Operand| match width {
            0 => (*dtype, values.clone()),
            width => (
                *dtype,
                values[rows.start * width..rows.end * width].to_vec(),
            ),
        };
        let memories: Vec<_> = operands.iter().map(of_rows).collect();
        run(&memories, |m| kernel(m, rows.len()))
    };
    let whole = launch(0..rows);
    for some in [
        0..1,
        1..2,
        rows / 2..rows / 2 + 1,
        rows / 3..rows - 1,
        rows - 1..rows,
    ] {
        for ((found, whole), (dtype, _, width)) in
            launch(some.clone()).iter().zip(&whole).zip(operands)
        {
            let expected = &whole[some.start * width..some.end * width];
            assert!(
                *width == 0 || bits(found) == bits(expected),
                "{dtype}, rows {some:?} of {rows}"
            );
        }
    }
}

/// Sizes at which threads share the work, and tails of every kind remain.
const ELEMENTS: usize = 40_003;

#[test]
fn elements_of_elementwise_kernels() {
    for dtype in FLOATS {
        let own = |seed| (dtype, random(dtype, ELEMENTS, seed), 1);
        let positive = random(dtype, ELEMENTS, 1)
            .iter()
            .map(|x| x.abs() + 0.1)
            .collect::<Vec<_>>();
        let x = (dtype, rounded(dtype, &positive), 1);
        for op in UnaryOp::ALL {
            assert_rows_alone(ELEMENTS, &[x.clone(), own(2)], |m, _| {
                Kernel::Unary(Unary {
                    op,
                    x: m[0],
                    out: m[1],
                })
            });
            assert_rows_alone(ELEMENTS, &[x.clone(), own(2), own(3)], |m, _| {
                let (x, d_out, d_x) = (m[0], m[1], m[2]);
                Kernel::UnaryBackward(UnaryBackward { op, x, d_out, d_x })
            });
        }
        assert_rows_alone(ELEMENTS, &[own(1), own(2), own(3)], |m, _| {
            let (gate, up, out) = (m[0], m[1], m[2]);
            Kernel::Swiglu(Swiglu { gate, up, out })
        });
        let five = [1, 2, 3, 4, 5].map(own);
        assert_rows_alone(ELEMENTS, &five, |m, _| {
            let (gate, up, d_out, d_gate, d_up) = (m[0], m[1], m[2], m[3], m[4]);
            Kernel::SwigluBackward(SwigluBackward {
                gate,
                up,
                d_out,
                d_gate,
                d_up,
            })
        });
        for to in FLOATS {
            let out = (to, vec![9.0; ELEMENTS], 1);
            assert_rows_alone(ELEMENTS, &[own(1), out], |m, _| {
                let (x, out) = (m[0], m[1]);
                Kernel::Cast(Cast { x, out })
            });
        }
    }
}

#[test]
fn elements_of_an_update() {
    for dtype in [DType::F64, DType::F32] {
        let own = |seed| (dtype, random(dtype, ELEMENTS, seed), 1);
        let second = own(4).1.iter().map(|x| x * x).collect::<Vec<_>>();
        let second = (dtype, rounded(dtype, &second), 1);
        let factor = (DType::F64, vec![0.5], 0);
        let operands = [
            own(1),
            own(2),
            own(3),
            second,
            (DType::Bf16, vec![9.0; ELEMENTS], 1),
            factor,
        ];
        assert_rows_alone(ELEMENTS, &operands, |m, _| {
            let tensor = AdamWTensor {
                weights: m[0],
                gradients: m[1],
                first: m[2],
                second: m[3],
                compute: Some(m[4]),
                weight_decay: 0.1,
            };
            Kernel::AdamW(AdamW {
                tensors: vec![tensor],
                factor: m[5],
                rate: 3e-3,
                beta1: 0.9,
                beta2: 0.999,
                epsilon: 1e-8,
                step: 3,
            })
        });
    }
}

const ROWS: usize = 301;
const WIDTHS: [usize; 4] = [1, 33, 100, 300];

#[test]
fn rows_of_norms_and_softmax() {
    for (dtype, columns) in FLOATS.iter().flat_map(|&d| WIDTHS.map(|c| (d, c))) {
        let own = |seed| (dtype, random(dtype, ROWS * columns, seed), columns);
        let gain = (dtype, random(dtype, columns, 7), 0);
        let pairs = |seed| {
            let values = random(dtype.accumulator(), 2 * ROWS, seed);
            let values = values.iter().map(|x| x.abs() + 0.1).collect::<Vec<_>>();
            (
                dtype.accumulator(),
                rounded(dtype.accumulator(), &values),
                2,
            )
        };
        let shape = |rows| NormShape {
            kind: NormKind::Layer,
            rows,
            columns,
            global_columns: columns,
            epsilon: 1e-5,
        };
        assert_rows_alone(
            ROWS,
            &[own(1), pairs(2), gain.clone(), own(3)],
            |m, rows| {
                Kernel::Normalize(Normalize {
                    shape: shape(rows),
                    x: m[0],
                    moments: m[1],
                    gain: m[2],
                    bias: Some(m[2]),
                    out: m[3],
                })
            },
        );
        let operands = [own(1), pairs(2), gain, own(3), pairs(4), own(5)];
        assert_rows_alone(ROWS, &operands, |m, rows| {
            Kernel::NormalizeBackward(NormalizeBackward {
                shape: shape(rows),
                x: m[0],
                moments: m[1],
                gain: m[2],
                d_out: m[3],
                sums: m[4],
                d_x: m[5],
            })
        });
        for log in [false, true] {
            assert_rows_alone(ROWS, &[own(1), own(2)], |m, rows| {
                let (x, out) = (m[0], m[1]);
                Kernel::Softmax(Softmax {
                    x,
                    out,
                    rows,
                    columns,
                    log,
                })
            });
            assert_rows_alone(ROWS, &[own(1), own(2), own(3)], |m, rows| {
                let (out, d_out, d_x) = (m[0], m[1], m[2]);
                Kernel::SoftmaxBackward(SoftmaxBackward {
                    out,
                    d_out,
                    d_x,
                    rows,
                    columns,
                    log,
                })
            });
        }
    }
}

#[test]
fn rows_of_losses_and_tables() {
    for (dtype, columns) in FLOATS.iter().flat_map(|&d| WIDTHS.map(|c| (d, c))) {
        let logits = (dtype, random(dtype, ROWS * columns, 1), columns);
        let ids = (DType::U32, random_ids(columns + 1, ROWS, 2), 1);
        let log_sum_exp = (dtype.accumulator(), vec![2.5; ROWS], 1);
        let d_loss = (dtype.accumulator(), random(dtype, ROWS, 5), 1);
        assert_rows_alone(
            ROWS,
            &[logits, ids.clone(), log_sum_exp, d_loss],
            |m, rows| {
                Kernel::CrossEntropyBackward(CrossEntropyBackward {
                    logits: m[0],
                    targets: m[1],
                    log_sum_exp: m[2],
                    d_loss: m[3],
                    runs: rows,
                    rows,
                    columns,
                    first_column: 0,
                    vocabulary: columns,
                    scale: 0.7,
                })
            },
        );
        let table = (dtype, random(dtype, columns * columns, 3), 0);
        let out = (dtype, vec![9.0; ROWS * columns], columns);
        assert_rows_alone(ROWS, &[table, ids, out], |m, rows| {
            Kernel::EmbeddingForward(EmbeddingForward {
                table: m[0],
                ids: m[1],
                out: m[2],
                rows,
                columns,
                table_rows: columns,
                first_row: 0,
            })
        });
    }
}

// A "row" here is a sequence of all heads, or the only head of a sequence.
#[test]
fn sequences_of_attention_and_rope() {
    let (sequences, sequence, heads, head_size) = (6, 37, 2, 20);
    let width = sequence * heads * head_size;
    for dtype in FLOATS {
        let own = |seed| (dtype, random(dtype, sequences * width, seed), width);
        let operands = [own(1), own(2)];
        assert_rows_alone(sequences, &operands, |m, sequences| {
            Kernel::Rope(Rope {
                x: m[0],
                out: m[1],
                rows: sequences * sequence,
                sequence,
                places: None,
                first_position: 0,
                heads,
                head_size,
                turned: head_size,
                frequencies: 1e4.into(),
                backward: false,
            })
        });
        let statistics = (
            dtype.accumulator(),
            vec![3.5; sequences * heads * sequence],
            heads * sequence,
        );
        let shape = |sequences| AttentionShape {
            scale: 0.3,
            ..AttentionShape::causal(sequences, sequence, [heads, heads, head_size])
        };
        let operands = [own(1), own(2), own(3), own(4), statistics.clone()];
        assert_rows_alone(sequences, &operands, |m, sequences| {
            Kernel::AttentionForward(AttentionForward {
                shape: shape(sequences),
                q: m[0],
                k: m[1],
                v: m[2],
                out: m[3],
                log_sum_exp: m[4],
                documents: None,
            })
        });
        let operands = [
            own(1),
            own(2),
            own(3),
            own(4),
            statistics,
            own(5),
            own(6),
            own(7),
            own(8),
        ];
        assert_rows_alone(sequences, &operands, |m, sequences| {
            Kernel::AttentionBackward(AttentionBackward {
                shape: shape(sequences),
                q: m[0],
                k: m[1],
                v: m[2],
                out: m[3],
                log_sum_exp: m[4],
                documents: None,
                d_out: m[5],
                d_q: m[6],
                d_k: m[7],
                d_v: m[8],
            })
        });
    }
}

fn columns_of(values: &[f64], width: usize, columns: &Range<usize>) -> Vec<f64> {
    let rows = values.chunks(width);
    rows.flat_map(|row| row[columns.clone()].to_vec()).collect()
}

#[test]
fn columns_of_sums_over_rows() {
    let (rows, width) = (3001, 70);
    for dtype in FLOATS {
        let x = random(dtype, rows * width, 1);
        let sums = |columns: &Range<usize>| {
            let memories = [
                (dtype, columns_of(&x, width, columns)),
                (dtype.accumulator(), vec![9.0; columns.len()]),
            ];
            let found = run(&memories, |m| {
                Kernel::ColumnSum(ColumnSum {
                    x: m[0],
                    out: m[1],
                    beta: 0.0,
                    rows,
                    columns: columns.len(),
                })
            });
            found[1].clone()
        };
        let whole = sums(&(0..width));
        for columns in [0..1, 3..40, 31..33, 69..70] {
            assert_eq!(
                bits(&sums(&columns)),
                bits(&whole[columns.clone()]),
                "{dtype}, {columns:?}"
            );
        }
    }
}

#[test]
fn tables_add_rows_in_the_order_of_ids() {
    let (rows, width, table_rows) = (900, 70, 11);
    let ids = random_ids(table_rows, rows, 3);
    for dtype in FLOATS {
        let d_out = random(dtype, rows * width, 1);
        let gradient = |held: &Range<usize>, columns: &Range<usize>| {
            let memories = [
                (dtype, columns_of(&d_out, width, columns)),
                (DType::U32, ids.clone()),
                (dtype.accumulator(), vec![0.5; held.len() * columns.len()]),
            ];
            let found = run(&memories, |m| {
                Kernel::EmbeddingBackward(EmbeddingBackward {
                    d_out: m[0],
                    ids: m[1],
                    d_table: m[2],
                    rows,
                    columns: columns.len(),
                    table_rows: held.len(),
                    first_row: held.start,
                })
            });
            found[2].clone()
        };
        let whole = gradient(&(0..table_rows), &(0..width));
        for (held, columns) in [(0..1, 0..width), (3..9, 5..6), (10..11, 31..70)] {
            let of_rows = &whole[held.start * width..held.end * width];
            let expected = columns_of(of_rows, width, &columns);
            assert_eq!(
                bits(&gradient(&held, &columns)),
                bits(&expected),
                "{dtype}, {held:?}"
            );
        }
    }
}
