//! Second moments that are kept as means of rows and columns: see [`hal::kernel::factored`].

use super::{holds, launch, optimiser::arguments};
use crate::{Arguments, Device, Tensor};
use hal::{
    DType, Error, Kernel, Result,
    kernel::{self, LinePlace},
};

/// A number for each row that some elements of a matrix touch, and one for each column of the part in which they lie.
#[derive(Clone, Debug)]
pub struct Lines {
    /// Of rows.
    pub rows: Tensor,
    /// Of columns, if they are wanted.
    pub columns: Option<Tensor>,
}

/// Consecutive elements of a matrix whose rows, and columns, are summed.
#[derive(Clone, Debug)]
pub struct LinePiece {
    /// The elements, f32 or f64.
    pub elements: Tensor,
    /// Where they lie.
    pub place: LinePlace,
    /// The largest magnitude of each line, f64.
    pub largest: Lines,
    /// The sum of squares of each line, f64.
    pub sums: Lines,
    /// Elements of a row of the matrix, and of a column.
    pub terms: [usize; 2],
}

/// Raises the largest magnitudes to those of the pieces' elements.
///
/// # Errors
/// [`Error::Invalid`] when numbers of lines or types do not fit, and for two pieces with one line.
pub fn line_largest(pieces: &[LinePiece]) -> Result<()> {
    pieces.iter().try_for_each(check_piece)?;
    let mut args = Arguments::default();
    let tensors = pieces.iter().map(|piece| kernel::LineLargestTensor {
        x: args.take(&piece.elements),
        place: piece.place,
        rows: args.take(&piece.largest.rows),
        columns: args.take_some(piece.largest.columns.as_ref()),
    });
    let tensors = tensors.collect();
    let kernel = kernel::LineLargest { tensors };
    launch(&mut args, Kernel::LineLargest(kernel))
}

/// Adds the squares of the pieces' elements to the sums, exactly; the largest magnitudes are those of all ranks.
///
/// # Errors
/// As [`line_largest`].
pub fn line_squares(pieces: &[LinePiece]) -> Result<()> {
    pieces.iter().try_for_each(check_piece)?;
    let mut args = Arguments::default();
    let tensors = pieces.iter().map(|piece| kernel::LineSquaresTensor {
        x: args.take(&piece.elements),
        place: piece.place,
        row_largest: args.take(&piece.largest.rows),
        row_sums: args.take(&piece.sums.rows),
        row_terms: piece.terms[0],
        column_largest: args.take_some(piece.largest.columns.as_ref()),
        column_sums: args.take_some(piece.sums.columns.as_ref()),
        column_terms: piece.terms[1],
    });
    let tensors = tensors.collect();
    let kernel = kernel::LineSquares { tensors };
    launch(&mut args, Kernel::LineSquares(kernel))
}

/// The lines of a whole matrix. Of each pair, the first is of rows.
#[derive(Clone, Debug)]
pub struct FactoredMatrix {
    /// As [`line_largest`] leaves them for all ranks.
    pub largest: [Tensor; 2],
    /// As [`line_squares`] leaves them for all ranks.
    pub sums: [Tensor; 2],
    /// The means, f32 or f64.
    pub means: [Tensor; 2],
    /// What a gradient is multiplied with, of that type.
    pub factors: [Tensor; 2],
}

/// How means follow squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Means {
    /// Share of the old means in the new ones.
    pub keep: f64,
    /// Added to squares.
    pub epsilon: f64,
}

/// Updates the means of matrices and computes their factors; `factor` is what
/// [`clip_scale`](super::optimiser::clip_scale) gave.
///
/// # Errors
/// [`Error::Invalid`] when numbers of lines or types do not fit, and for tensors of another device.
pub fn factor_means(
    device: &Device,
    matrices: &[FactoredMatrix],
    factor: &Tensor,
    Means { keep, epsilon }: Means,
) -> Result<()> {
    for matrix in matrices {
        let dtype = matrix.means[0].dtype();
        for of in 0..2 {
            let lines = matrix.means[of].num_elements();
            holds(
                "factor_means",
                "largest",
                &matrix.largest[of],
                lines,
                DType::F64,
            )?;
            holds("factor_means", "sums", &matrix.sums[of], lines, DType::F64)?;
            holds("factor_means", "means", &matrix.means[of], lines, dtype)?;
            holds("factor_means", "factors", &matrix.factors[of], lines, dtype)?;
        }
    }
    let mut args = arguments(device, factor)?;
    let tensors = matrices.iter().map(|matrix| kernel::FactorMeansTensor {
        largest: matrix.largest.each_ref().map(|lines| args.take(lines)),
        sums: matrix.sums.each_ref().map(|lines| args.take(lines)),
        means: matrix.means.each_ref().map(|lines| args.take(lines)),
        factors: matrix.factors.each_ref().map(|lines| args.take(lines)),
    });
    let tensors = tensors.collect();
    let factor = args.take_part(factor, 0, 1);
    let kernel = kernel::FactorMeans {
        tensors,
        factor,
        keep,
        epsilon,
    };
    launch(&mut args, Kernel::FactorMeans(kernel))
}

/// Consecutive elements of a gradient, which become a direction.
#[derive(Clone, Debug)]
pub struct FactoredPiece {
    /// The elements, f32 or f64.
    pub gradients: Tensor,
    /// Where they lie.
    pub place: LinePlace,
    /// The factors of their rows, and of the columns of the part, of that type.
    pub factors: [Tensor; 2],
}

/// Multiplies gradients with `factor`, as in [`factor_means`], and with the factors of their columns and rows.
///
/// # Errors
/// As [`factor_means`].
pub fn factor_directions(device: &Device, pieces: &[FactoredPiece], factor: &Tensor) -> Result<()> {
    for piece in pieces {
        let dtype = piece.gradients.dtype();
        let counts = count_lines(&piece.gradients, piece.place)?;
        for (factors, count) in piece.factors.iter().zip(counts) {
            holds("factor_directions", "factors", factors, count, dtype)?;
        }
    }
    let mut args = arguments(device, factor)?;
    let tensors = pieces.iter().map(|piece| kernel::FactorDirectionsTensor {
        gradients: args.take(&piece.gradients),
        place: piece.place,
        factors: piece.factors.each_ref().map(|factors| args.take(factors)),
    });
    let tensors = tensors.collect();
    let factor = args.take_part(factor, 0, 1);
    let kernel = kernel::FactorDirections { tensors, factor };
    launch(&mut args, Kernel::FactorDirections(kernel))
}

/// The directions of a whole matrix.
#[derive(Clone, Debug)]
pub struct FactoredStep {
    /// As [`line_largest`] leaves them for the rows of all ranks.
    pub largest: Tensor,
    /// As [`line_squares`] leaves them for the rows of all ranks.
    pub sums: Tensor,
    /// Two f64: the factor of the step, and the root mean square of the directions.
    pub clip: Tensor,
    /// Elements of the matrix.
    pub elements: usize,
}

/// Sets the factor of each step to what brings the root mean square of its directions to at most `most`; to NaN if `factor`,
/// as in [`factor_means`], is NaN.
///
/// # Errors
/// As [`factor_means`].
pub fn clip_directions(
    device: &Device,
    steps: &[FactoredStep],
    factor: &Tensor,
    most: f64,
) -> Result<()> {
    for step in steps {
        let rows = step.sums.num_elements();
        holds(
            "clip_directions",
            "largest",
            &step.largest,
            rows,
            DType::F64,
        )?;
        holds("clip_directions", "sums", &step.sums, rows, DType::F64)?;
        holds("clip_directions", "factor", &step.clip, 2, DType::F64)?;
    }
    let mut args = arguments(device, factor)?;
    let tensors = steps.iter().map(|step| kernel::ClipDirectionsTensor {
        largest: args.take(&step.largest),
        sums: args.take(&step.sums),
        out: args.take(&step.clip),
        elements: step.elements,
    });
    let tensors = tensors.collect();
    let factor = args.take_part(factor, 0, 1);
    let kernel = kernel::ClipDirections {
        tensors,
        factor,
        most,
    };
    launch(&mut args, Kernel::ClipDirections(kernel))
}

fn check_piece(piece: &LinePiece) -> Result<()> {
    let [rows, columns] = count_lines(&piece.elements, piece.place)?;
    let mut pairs = [&piece.largest, &piece.sums].into_iter();
    pairs.try_for_each(|lines| {
        holds("line sums", "rows", &lines.rows, rows, DType::F64)?;
        let mut given = lines.columns.iter();
        given.try_for_each(|given| holds("line sums", "columns", given, columns, DType::F64))
    })
}

/// Rows that the elements touch, and columns.
fn count_lines(elements: &Tensor, place: LinePlace) -> Result<[usize; 2]> {
    let count = elements.num_elements();
    match place.num_rows(count) {
        Some(rows) => Ok([rows, place.columns]),
        None => Err(Error::invalid(
            "lines of a matrix",
            format!("{count} elements at {place:?}"),
            "a start within a row",
        )),
    }
}
