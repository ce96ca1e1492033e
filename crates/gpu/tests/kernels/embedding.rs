//! Look-up in a shard of a table, and its gradient, which is the reference's to the last bit.

use crate::{
    machine::compare,
    memory::{FLOATS, Memory, ids, random},
};
use hal::{
    DType, Kernel,
    kernel::{EmbeddingBackward, EmbeddingForward},
};

/// Ids, columns, rows of the shard, its first row, elements before the first.
const SHAPES: [[usize; 5]; 3] = [[1, 3, 4, 0, 0], [300, 40, 20, 13, 1], [130, 264, 7, 0, 0]];

#[test]
fn rows_are_looked_up() {
    for ((dtype, _), [rows, columns, table_rows, first_row, before]) in
        FLOATS.iter().flat_map(|f| SHAPES.map(|s| (f, s)))
    {
        let memories = [
            Memory::new(*dtype, &random(table_rows * columns, 1), before),
            Memory::new(DType::U32, &ids(rows, first_row + table_rows + 5, 2), 0),
            Memory::new(*dtype, &random(rows * columns, 3), before),
        ];
        compare(&memories, 0.0, |m| {
            let [table, ids, out] = [m[0], m[1], m[2]];
            Kernel::EmbeddingForward(EmbeddingForward {
                table,
                ids,
                out,
                rows,
                columns,
                table_rows,
                first_row,
            })
        });
    }
}

#[test]
fn gradients_are_added_in_the_order_of_ids() {
    for ((dtype, _), [rows, columns, table_rows, first_row, before]) in
        FLOATS.iter().flat_map(|f| SHAPES.map(|s| (f, s)))
    {
        let memories = [
            Memory::new(*dtype, &random(rows * columns, 1), before),
            Memory::new(DType::U32, &ids(rows, first_row + table_rows + 5, 2), 0),
            Memory::new(dtype.accumulator(), &random(table_rows * columns, 3), 0),
        ];
        compare(&memories, 0.0, |m| {
            let [d_out, ids, d_table] = [m[0], m[1], m[2]];
            Kernel::EmbeddingBackward(EmbeddingBackward {
                d_out,
                ids,
                d_table,
                rows,
                columns,
                table_rows,
                first_row,
            })
        });
    }
}
