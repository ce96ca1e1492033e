//! The largest element and the sum of squares of each row and column. C++: `lines.h`.

use super::{
    DeviceTraits, Launch,
    batch::{Batch, PART, batches, launch},
    layouts::{Layout, params},
    shape::{THREADS, reduction_bytes},
};
use bytemuck::Zeroable;
use hal::{
    DType, RawSlice, Result,
    kernel::{LineLargest, LinePlace, LineSquares, factored::rounds},
};

/// Tensors in the arguments of one launch.
const LINE_TENSORS: usize = 32;
/// Columns of a block.
const LINE_COLUMNS: usize = 32;

params! {
    struct LineEntry {
        x: u64,
        largest: u64,
        lines: u64,
        len: u64,
        columns: u64,
        start: u64,
        rounds: f64,
        first_block: u32,
        unused: u32,
    }
    struct LineParams {
        num_tensors: u32,
        unused: u32,
        tensors: [LineEntry; LINE_TENSORS],
    }
}

pub(super) const LAYOUTS: &[Layout] = &[LineEntry::LAYOUT, LineParams::LAYOUT];

/// Rows or columns of one matrix.
struct Lines {
    x: RawSlice,
    place: LinePlace,
    largest: Option<RawSlice>,
    lines: RawSlice,
    terms: usize,
}

pub(super) fn line_largest(args: &LineLargest, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let lines = |x, place, lines| Lines {
        x,
        place,
        largest: None,
        lines,
        terms: 1,
    };
    let tensors = args.tensors.iter();
    let rows = tensors.map(|tensor| lines(tensor.x, tensor.place, tensor.rows));
    let tensors = args.tensors.iter();
    let columns = tensors.filter_map(|tensor| Some(lines(tensor.x, tensor.place, tensor.columns?)));
    both(
        ["row_largest", "column_largest"],
        [rows.collect(), columns.collect()],
        traits,
    )
}

pub(super) fn line_squares(args: &LineSquares, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let tensors = args.tensors.iter();
    let rows = tensors.map(|tensor| Lines {
        x: tensor.x,
        place: tensor.place,
        largest: Some(tensor.row_largest),
        lines: tensor.row_sums,
        terms: tensor.row_terms,
    });
    let tensors = args.tensors.iter();
    let columns = tensors.filter_map(|tensor| {
        Some(Lines {
            x: tensor.x,
            place: tensor.place,
            largest: Some(tensor.column_largest?),
            lines: tensor.column_sums?,
            terms: tensor.column_terms,
        })
    });
    both(
        ["row_squares", "column_squares"],
        [rows.collect(), columns.collect()],
        traits,
    )
}

fn both(
    [of_rows, of_columns]: [&str; 2],
    [rows, columns]: [Vec<Lines>; 2],
    traits: &DeviceTraits,
) -> Result<Vec<Launch>> {
    for lines in &rows {
        traits.accumulator(of_rows, lines.x.dtype)?;
    }
    let work = |lines: &Lines| work_of_rows(lines.x, lines.place);
    let batches_of_rows = batches(&rows, work, LINE_TENSORS);
    let work = |lines: &Lines| match lines.x.len {
        0 => (lines.x.dtype, 0),
        _ => (
            lines.x.dtype,
            lines.place.columns.div_ceil(LINE_COLUMNS) * PART,
        ),
    };
    let batches_of_columns = batches(&columns, work, LINE_TENSORS);
    let of_rows = batches_of_rows
        .iter()
        .map(|batch| lines_batch(of_rows, batch).with_shared(reduction_bytes(THREADS, traits)));
    let of_columns = batches_of_columns
        .iter()
        .map(|batch| lines_batch(of_columns, batch).with_shared(THREADS * 8));
    Ok(of_rows.chain(of_columns).collect())
}

/// The type, and as many parts as the elements touch rows.
pub(super) fn work_of_rows(x: RawSlice, place: LinePlace) -> (DType, usize) {
    (x.dtype, place.num_rows(x.len).unwrap_or(0) * PART)
}

fn lines_batch(operation: &str, batch: &Batch<'_, Lines>) -> Launch {
    let mut params = LineParams {
        num_tensors: batch.tensors.len() as u32,
        ..Zeroable::zeroed()
    };
    for (entry, (lines, first_block)) in params.tensors.iter_mut().zip(&batch.tensors) {
        *entry = LineEntry {
            x: lines.x.addr,
            largest: lines.largest.map_or(0, |largest| largest.addr),
            lines: lines.lines.addr,
            len: lines.x.len as u64,
            columns: lines.place.columns as u64,
            start: lines.place.start as u64,
            rounds: rounds(lines.terms),
            first_block: *first_block,
            unused: 0,
        };
    }
    launch(operation, batch, &params)
}
