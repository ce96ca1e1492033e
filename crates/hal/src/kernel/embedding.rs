//! Look-up in a table whose rows may be sharded.

use crate::{
    RawSlice,
    operand::{READ, UPDATE, WRITE, operands},
};

/// `out[i] = table[ids[i] - first_row]`, or 0 where that row is not held here.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingForward {
    /// table_rows x columns, any float type.
    pub table: RawSlice,
    /// rows, u32.
    pub ids: RawSlice,
    /// rows x columns, of the type of the table.
    pub out: RawSlice,
    /// Number of ids.
    pub rows: usize,
    /// Columns of the table.
    pub columns: usize,
    /// Rows of the table held here.
    pub table_rows: usize,
    /// Global index of the first of them.
    pub first_row: usize,
}

/// `d_table[ids[i] - first_row] += d_out[i]`, in the order of i; rows not held here are skipped.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingBackward {
    /// rows x columns, any float type.
    pub d_out: RawSlice,
    /// rows, u32.
    pub ids: RawSlice,
    /// table_rows x columns, of the accumulator type; added to.
    pub d_table: RawSlice,
    /// Number of ids.
    pub rows: usize,
    /// Columns of the table.
    pub columns: usize,
    /// Rows of the table held here.
    pub table_rows: usize,
    /// Global index of the first of them.
    pub first_row: usize,
}

operands! {
    EmbeddingForward { table: READ, ids: READ, out: WRITE ; rows, columns, table_rows, first_row }
    EmbeddingBackward { d_out: READ, ids: READ, d_table: UPDATE ; rows, columns, table_rows, first_row }
}
