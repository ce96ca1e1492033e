//! Moves blocks of columns, and full tensors.

use super::{launch, same_length, same_type};
use crate::{Arguments, Stream, Tensor};
use hal::{Access, Error, Kernel, Result, kernel::Copy2d};

/// A copy of `count` columns of the last dim, from `start` on.
///
/// # Errors
/// [`Error::Invalid`] when they do not lie within the dim, and for a tensor without dims.
pub fn columns(x: &Tensor, start: usize, count: usize) -> Result<Tensor> {
    check_columns("columns", x, start, count)?;
    let mut shape = x.shape().to_vec();
    shape[x.shape().len() - 1] = count;
    let out = Tensor::empty(x.device(), x.dtype(), &shape)?;
    block(x, start, x.columns(), &out, 0, count, count)?;
    Ok(out)
}

/// As [`columns`], into a tensor of its own: as many rows as `x` has, of `count` columns.
///
/// # Errors
/// As there; [`Error::Invalid`] also when `out` holds another number of elements or another type, or overlaps `x`.
pub fn columns_into(x: &Tensor, start: usize, count: usize, out: &Tensor) -> Result<()> {
    same_type("columns_into", x, &[out])?;
    check_columns("columns_into", x, start, count)?;
    if out.num_elements() != x.num_rows() * count || x.overlaps(out) {
        let needed = format!("a tensor of its own of {} x {count}", x.num_rows());
        return Err(Error::invalid("columns_into", format!("{out:?}"), needed));
    }
    block(x, start, x.columns(), out, 0, count, count)
}

/// Overwrites the columns of `x` from `start` on with those of `part`.
///
/// # Errors
/// [`Error::Invalid`] when they do not lie within the dim, when rows or types differ, and when the two overlap.
pub fn set_columns(x: &Tensor, start: usize, part: &Tensor) -> Result<()> {
    same_type("set_columns", x, &[part])?;
    check_columns("set_columns", x, start, part.columns())?;
    if x.num_rows() != part.num_rows() {
        return Err(Error::invalid(
            "set_columns",
            format!("{part:?}"),
            format!("{} rows", x.num_rows()),
        ));
    }
    if x.overlaps(part) {
        let found = format!("{x:?} overlapping {part:?}");
        return Err(Error::invalid("set_columns", found, "a part of its own"));
    }
    block(
        part,
        0,
        part.columns(),
        x,
        start,
        x.columns(),
        part.columns(),
    )
}

/// Copies all elements of `src` to `dst`.
///
/// # Errors
/// [`Error::Invalid`] when length or type differ or the two overlap.
pub fn copy(src: &Tensor, dst: &Tensor) -> Result<()> {
    copy_on(&src.device().compute(), src, dst)
}

/// As [`copy`], on another stream than that of compute.
///
/// # Errors
/// As there; [`Error::Invalid`] also for a stream of another device.
pub fn copy_on(stream: &Stream, src: &Tensor, dst: &Tensor) -> Result<()> {
    same_type("copy", src, &[dst])?;
    same_length("copy", src, &[dst])?;
    let used = Arguments::used([(src, Access::Read), (dst, Access::Write)]);
    used.check_overlap("copy")?;
    let [from, to] = used.buffers();
    stream.queue("copy", &used, |stream| {
        // SAFETY: both are live, kept by their storage, of equal size and disjoint (checked above).
        unsafe { stream.copy(to, from) }
    })
}

/// Overwrites the elements `(i, i)` of a square matrix with those of `column`.
pub(super) fn diagonal(matrix: &Tensor, column: &Tensor) -> Result<()> {
    block(column, 0, 1, matrix, 0, matrix.columns() + 1, 1)
}

fn check_columns(operation: &str, x: &Tensor, start: usize, count: usize) -> Result<()> {
    let have = x.columns();
    if x.shape().is_empty() || start.checked_add(count).is_none_or(|end| end > have) {
        let found = format!("columns {start}..{start}+{count} of {x:?}");
        return Err(Error::invalid(operation, found, format!("at most {have}")));
    }
    Ok(())
}

fn block(
    src: &Tensor,
    src_start: usize,
    src_leading: usize,
    dst: &Tensor,
    dst_start: usize,
    dst_leading: usize,
    columns: usize,
) -> Result<()> {
    let rows = src.num_rows();
    if rows == 0 || columns == 0 {
        return Ok(());
    }
    let span = |leading: usize| (rows - 1) * leading + columns;
    let mut args = Arguments::default();
    let kernel = Copy2d {
        src: args.take_part(src, src_start, span(src_leading)),
        src_leading,
        dst: args.take_part(dst, dst_start, span(dst_leading)),
        dst_leading,
        rows,
        columns,
    };
    launch(&mut args, Kernel::Copy2d(kernel))
}
