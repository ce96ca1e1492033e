//! Cuts of a result into parts and blocks.

use super::multiplier::TileSize;
use std::ops::Range;

/// Cuts a range into ranges of about equal length, at most `most` and multiples of `unit`.
pub(super) fn cuts(
    range: Range<usize>,
    most: usize,
    unit: usize,
) -> impl Iterator<Item = Range<usize>> {
    let most = (most / unit).max(1) * unit;
    let parts = range.len().div_ceil(most).max(1);
    let part = range.len().div_ceil(parts).next_multiple_of(unit);
    range
        .clone()
        .step_by(part.max(1))
        .map(move |start| start..range.end.min(start + part))
}

/// Cuts the result into a part per thread, each as square as possible.
pub(super) fn parts(
    [m, n]: [usize; 2],
    tile: TileSize,
    threads: usize,
) -> Vec<(Range<usize>, Range<usize>)> {
    let divisors = (1..=threads).filter(|rows| threads.is_multiple_of(*rows));
    let packed = |rows: &usize| m.div_ceil(*rows) + n.div_ceil(threads / rows);
    let row_parts = divisors.min_by_key(packed).unwrap_or(1);
    let rows = cuts(
        0..m,
        m.div_ceil(row_parts).next_multiple_of(tile.rows),
        tile.rows,
    );
    let most_columns = n.div_ceil(threads / row_parts);
    let unit = tile.columns();
    rows.flat_map(|rows| {
        let columns = cuts(0..n, most_columns.next_multiple_of(unit), unit);
        columns.map(move |columns| (rows.clone(), columns))
    })
    .collect()
}
