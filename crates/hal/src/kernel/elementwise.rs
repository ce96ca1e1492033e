//! Elementwise kernels, and two that combine a matrix with a row: bias and column sum.

use crate::{
    RawSlice,
    operand::{READ, Role, UPDATE, WRITE, operands},
    random::Key,
};

/// `out[i] = value`.
#[derive(Clone, Debug, PartialEq)]
pub struct Fill {
    /// Any type.
    pub out: RawSlice,
    /// Converted to the element type.
    pub value: f64,
}

/// `out[i] = x[i]` in another type; floats round to nearest even.
#[derive(Clone, Debug, PartialEq)]
pub struct Cast {
    /// Any float type.
    pub x: RawSlice,
    /// Any float type, as long as `x`.
    pub out: RawSlice,
}

/// `y[i] = alpha * x[i] + beta * y[i]`; with `beta` 0 the old `y` is not read.
#[derive(Clone, Debug, PartialEq)]
pub struct Axpby {
    /// Any float type.
    pub x: RawSlice,
    /// Any float type, as long as `x`.
    pub y: RawSlice,
    /// Scale of `x`.
    pub alpha: f64,
    /// Scale of the old `y`.
    pub beta: f64,
}

/// What [`Binary`] computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names of the four operations")]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
}

/// `out[i] = a[i] op b[i % b.len]`, all of one type: a `b` that is shorter is a row for all rows, or one number.
#[derive(Clone, Debug, PartialEq)]
pub struct Binary {
    /// The operation.
    pub op: BinaryOp,
    /// Any float type.
    pub a: RawSlice,
    /// Of a length that divides that of `a`, and not 0 unless `a` is empty.
    pub b: RawSlice,
    /// As long as `a`; may be `a`, and may be `b` where that is as long.
    pub out: RawSlice,
}

/// What [`Unary`] computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// GELU by its tanh approximation, as in GPT-2.
    Gelu,
    /// GELU by its definition, 0.5 x (1 + erf(x / sqrt 2)), as in GPT-NeoX.
    GeluErf,
    /// x * sigmoid(x).
    Silu,
    /// max(x, 0).
    Relu,
    /// tanh(x).
    Tanh,
    /// 1 / (1 + exp(-x)).
    Sigmoid,
    /// exp(x).
    Exp,
    /// Natural logarithm of x.
    Log,
    /// Square root of x.
    Sqrt,
}

impl UnaryOp {
    /// All of them.
    pub const ALL: [UnaryOp; 9] = [
        UnaryOp::Gelu,
        UnaryOp::GeluErf,
        UnaryOp::Silu,
        UnaryOp::Relu,
        UnaryOp::Tanh,
        UnaryOp::Sigmoid,
        UnaryOp::Exp,
        UnaryOp::Log,
        UnaryOp::Sqrt,
    ];
}

/// `out[i] = op(x[i])`, of one type and length.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names of the formula")]
pub struct Unary {
    pub op: UnaryOp,
    pub x: RawSlice,
    pub out: RawSlice,
}

/// `d_x[i] = d_out[i] * op'(x[i])`, of one type and length; `d_x` may be `d_out`.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names of the formula")]
pub struct UnaryBackward {
    pub op: UnaryOp,
    pub x: RawSlice,
    pub d_out: RawSlice,
    pub d_x: RawSlice,
}

/// `out[i] = silu(gate[i]) * up[i]`, of one type and length.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names of the formula")]
pub struct Swiglu {
    pub gate: RawSlice,
    pub up: RawSlice,
    pub out: RawSlice,
}

/// Gradients of [`Swiglu`]; `d_gate` may be `gate` and `d_up` may be `up`.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names of the formula")]
pub struct SwigluBackward {
    pub gate: RawSlice,
    pub up: RawSlice,
    pub d_out: RawSlice,
    pub d_gate: RawSlice,
    pub d_up: RawSlice,
}

/// `x[r, c] += bias[c]`, in place.
#[derive(Clone, Debug, PartialEq)]
pub struct AddBias {
    /// rows x columns, any float type.
    pub x: RawSlice,
    /// columns, of the same type.
    pub bias: RawSlice,
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
}

/// `out[c] = beta * out[c] + sum over r of x[r, c]`: the gradient of a bias.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnSum {
    /// rows x columns, any float type.
    pub x: RawSlice,
    /// columns, of the type of `x` or its accumulator.
    pub out: RawSlice,
    /// Factor of what `out` holds; 0 does not read it.
    pub beta: f64,
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
}

/// Where a local matrix lies within the global one that the generator numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Local rows.
    pub rows: usize,
    /// Local columns.
    pub columns: usize,
    /// Global index of the first local row.
    pub first_row: usize,
    /// Global index of the first local column.
    pub first_column: usize,
    /// Columns of the global matrix: element (r, c) has index `r * global_columns + c`.
    pub global_columns: usize,
}

/// `out[i]` is `x[i]` times 1 / (1 - probability), or 0 where the draw for the element's global index is below `probability`.
///
/// The same kernel with the same key is its own gradient.
#[derive(Clone, Debug, PartialEq)]
pub struct Dropout {
    /// rows x columns, any float type.
    pub x: RawSlice,
    /// As `x`; may be `x`.
    pub out: RawSlice,
    /// Fraction of elements that become 0, in [0, 1).
    pub probability: f64,
    /// The random sequence: elements with `key.uniform(global index) < probability` are dropped.
    pub key: Key,
    /// Global indices of the elements.
    pub region: Region,
}

operands! {
    Fill { out: WRITE ; value }
    Cast { x: READ, out: WRITE }
    Axpby { x: READ, y: Role::scaled_by(*beta).in_place() ; alpha, beta }
    Binary { a: READ, b: READ, out: WRITE.in_place() ; op }
    Unary { x: READ, out: WRITE ; op }
    UnaryBackward { x: READ, d_out: READ, d_x: WRITE.in_place() ; op }
    Swiglu { gate: READ, up: READ, out: WRITE }
    SwigluBackward { gate: READ, up: READ, d_out: READ, d_gate: WRITE.in_place(), d_up: WRITE.in_place() }
    AddBias { x: UPDATE, bias: READ ; rows, columns }
    ColumnSum { x: READ, out: UPDATE ; beta, rows, columns }
    Dropout { x: READ, out: WRITE.in_place() ; probability, key, region }
}
