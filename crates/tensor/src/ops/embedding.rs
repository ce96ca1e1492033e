//! Look-up in a table whose rows may be sharded.

use super::{float, holds, launch};
use crate::{Arguments, Tensor, shape::product};
use hal::{
    DType, Kernel, Result,
    kernel::{EmbeddingBackward, EmbeddingForward},
};

/// The rows of `table` with these ids; rows not held here are 0.
///
/// # Shapes
/// `table`: table_rows x columns, whose first row has the global index `first_row`. `ids`: u32. The result: ids x columns.
/// # Errors
/// [`Error::Invalid`](hal::Error::Invalid) when `ids` are not u32, and for a table of integers.
pub fn embedding(table: &Tensor, ids: &Tensor, first_row: usize) -> Result<Tensor> {
    float("embedding", table)?;
    holds("embedding", "ids", ids, ids.num_elements(), DType::U32)?;
    let (table_rows, columns) = (table.num_rows(), table.columns());
    let out = Tensor::empty(
        table.device(),
        table.dtype(),
        &[ids.shape(), &[columns]].concat(),
    )?;
    let mut args = Arguments::default();
    let kernel = EmbeddingForward {
        table: args.take(table),
        ids: args.take(ids),
        out: args.take(&out),
        rows: ids.num_elements(),
        columns,
        table_rows,
        first_row,
    };
    launch(&mut args, Kernel::EmbeddingForward(kernel))?;
    Ok(out)
}

/// Adds the gradients of looked-up rows to `d_table`, in the order of ids.
///
/// # Shapes
/// `d_out`: ids x columns. `d_table`: table_rows x columns, of the accumulator type.
/// # Errors
/// [`Error::Invalid`](hal::Error::Invalid) when a tensor has another size or type.
pub fn embedding_backward(
    d_out: &Tensor,
    ids: &Tensor,
    d_table: &Tensor,
    first_row: usize,
) -> Result<()> {
    float("embedding_backward", d_out)?;
    let (table_rows, columns) = (d_table.num_rows(), d_table.columns());
    holds(
        "embedding_backward",
        "ids",
        ids,
        ids.num_elements(),
        DType::U32,
    )?;
    let elements = product("embedding_backward", &[ids.num_elements(), columns])?;
    holds(
        "embedding_backward",
        "gradient",
        d_out,
        elements,
        d_out.dtype(),
    )?;
    holds(
        "embedding_backward",
        "table",
        d_table,
        table_rows * columns,
        d_out.dtype().accumulator(),
    )?;
    let mut args = Arguments::default();
    let kernel = EmbeddingBackward {
        d_out: args.take(d_out),
        ids: args.take(ids),
        d_table: args.take(d_table),
        rows: ids.num_elements(),
        columns,
        table_rows,
        first_row,
    };
    launch(&mut args, Kernel::EmbeddingBackward(kernel))
}
