//! Operations on individual elements.

use super::{
    Sizes,
    case::{Case, Operands},
};
use hal::random::Key;
use tensor::{
    DType,
    ops::{self, Region, UnaryOp},
};

const FAMILY: &str = "elementwise";

/// All of them: residual sum, bias, activation functions, dropout, conversions.
pub(super) fn cases(sizes: Sizes, dtype: DType) -> Vec<Case> {
    let mut cases = vec![
        add(sizes),
        add_bias(sizes),
        gelu(sizes),
        gelu_backward(sizes),
    ];
    cases.extend([swiglu(sizes), swiglu_backward(sizes), dropout(sizes)]);
    // A step casts only where sums and activations have different types.
    if dtype != dtype.accumulator() {
        cases.push(cast(sizes));
    }
    cases
}

// Two operands read, one written.
fn add(sizes: Sizes) -> Case {
    let shape = sizes.stream();
    Case::new(
        "add",
        FAMILY,
        move |maker| {
            Ok(Operands::read([
                maker.random(&shape)?,
                maker.random(&shape)?,
            ]))
        },
        |operands| Ok(vec![ops::add(&operands.read[0], &operands.read[1])?]),
    )
}

// Reads and writes the matrix and reads the bias. The bias is 0, because adding another value many times
// would overflow the type.
fn add_bias(sizes: Sizes) -> Case {
    let [rows, columns] = sizes.mlp();
    Case::new(
        "add_bias",
        FAMILY,
        move |maker| {
            let bias = maker.random(&[columns])?;
            bias.fill(0.0)?;
            Ok(Operands {
                updated: vec![maker.random(&[rows, columns])?],
                ..Operands::read([bias])
            })
        },
        |operands| {
            ops::add_bias(&operands.updated[0], &operands.read[0])?;
            Ok(Vec::new())
        },
    )
}

// One operand read, one written.
fn gelu(sizes: Sizes) -> Case {
    let shape = sizes.mlp();
    Case::new(
        "gelu",
        FAMILY,
        move |maker| Ok(Operands::read([maker.random(&shape)?])),
        |operands| Ok(vec![ops::unary(UnaryOp::Gelu, &operands.read[0])?]),
    )
}

// Input and gradient read, one gradient written.
fn gelu_backward(sizes: Sizes) -> Case {
    let shape = sizes.mlp();
    Case::new(
        "gelu backward",
        FAMILY,
        move |maker| {
            Ok(Operands::read([
                maker.random(&shape)?,
                maker.random(&shape)?,
            ]))
        },
        |operands| {
            Ok(vec![ops::unary_backward(
                UnaryOp::Gelu,
                &operands.read[0],
                operands.read[1].clone(),
            )?])
        },
    )
}

// Two operands read, one written.
fn swiglu(sizes: Sizes) -> Case {
    let shape = sizes.gated_mlp();
    Case::new(
        "swiglu",
        FAMILY,
        move |maker| {
            Ok(Operands::read([
                maker.random(&shape)?,
                maker.random(&shape)?,
            ]))
        },
        |operands| Ok(vec![ops::swiglu(&operands.read[0], &operands.read[1])?]),
    )
}

// Two inputs and a gradient read, two gradients written.
fn swiglu_backward(sizes: Sizes) -> Case {
    let shape = sizes.gated_mlp();
    Case::new(
        "swiglu backward",
        FAMILY,
        move |maker| {
            Ok(Operands::read([
                maker.random(&shape)?,
                maker.random(&shape)?,
                maker.random(&shape)?,
            ]))
        },
        |operands| {
            let [gate, up, d_out] = [&operands.read[0], &operands.read[1], &operands.read[2]];
            let (d_gate, d_up) = ops::swiglu_backward(gate, up, d_out)?;
            Ok(vec![d_gate, d_up])
        },
    )
}

// One operand read, one written; the random draws are computed.
fn dropout(sizes: Sizes) -> Case {
    let [rows, columns] = sizes.stream();
    let region = Region {
        rows,
        columns,
        first_row: 0,
        first_column: 0,
        global_columns: columns,
    };
    Case::new(
        "dropout",
        FAMILY,
        move |maker| Ok(Operands::read([maker.random(&[rows, columns])?])),
        move |operands| {
            Ok(vec![ops::dropout(
                &operands.read[0],
                0.1,
                Key::new(1, "bench dropout", 0),
                region,
            )?])
        },
    )
}

// Activations to the type in which sums are held: one operand read, one written.
fn cast(sizes: Sizes) -> Case {
    let shape = sizes.stream();
    Case::new(
        "cast",
        FAMILY,
        move |maker| Ok(Operands::read([maker.random(&shape)?])),
        |operands| {
            let x = &operands.read[0];
            Ok(vec![ops::cast(x, x.dtype().accumulator())?])
        },
    )
}
