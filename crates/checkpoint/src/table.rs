//! Tables for people.

use std::fmt;

/// Rows in aligned columns, after an empty line.
pub(crate) fn table<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    rows: impl Iterator<Item = [String; N]>,
) -> fmt::Result {
    let rows: Vec<_> = rows.collect();
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<_> = (0..N).map(width).collect();
    writeln!(f)?;
    for row in &rows {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}
