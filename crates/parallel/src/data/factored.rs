//! The update of parameters whose second moments are means of rows and columns: gradients become directions, by sums over whole
//! rows and columns.
//!
//! Each rank sums what it holds, whatever axes and replicas' shards cut. The sums are of rounded numbers, so that none of the
//! additions rounds and any order gives the same bits: all ranks add theirs in one all-reduce for each axis that cuts parameters,
//! of the numbers of all lines of the stage, after one of their largest elements, which fix the rounding.

use super::{
    ParameterSet, UpdateRule,
    bucket::common,
    lines::{LineMeans, num_lines, runs_of_rows},
    update::{PartTensors, piece},
};
use crate::{Parameter, Purpose, counters::Subject};
use grid::Axis;
use hal::kernel::LinePlace;
use std::ops::Range;
use tensor::{
    DType, Error, ReduceOp, Result, Tensor,
    ops::{
        factored::{self, FactoredMatrix, FactoredPiece, FactoredStep, LinePiece, Lines, Means},
        optimiser::Update,
    },
};

/// How gradients become directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factoring {
    /// How means follow squares.
    pub means: Means,
    /// The largest root mean square of a parameter's directions; larger ones are scaled to it.
    pub most: f64,
}

/// Consecutive elements of a parameter that this rank updates, in consecutive rows.
struct Piece<'a> {
    parameter: &'a Parameter,
    gradients: Tensor,
    place: LinePlace,
    /// The rows and the columns of the whole parameter that it touches.
    lines: [Range<usize>; 2],
    /// Its number among the parameter's runs of rows.
    run: usize,
}

/// Numbers of all lines: the largest elements, and sums of squares.
struct LineSums {
    largest: Tensor,
    squares: Tensor,
}

impl ParameterSet {
    /// As [`Gradients::update_factored`](super::Gradients::update_factored).
    pub(super) fn update_factored<E: From<Error>>(
        &self,
        factoring: Factoring,
        factor: &Tensor,
        rule: impl Fn(&Parameter) -> UpdateRule,
        mut update: impl FnMut(f64, &Tensor, &[Update]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let Some(lines) = &self.0.lines else {
            return Ok(());
        };
        let clips = self.directions(lines, factoring, factor)?;
        for bucket in &self.0.buckets {
            let Some(gradients) = bucket.own_gradients()? else {
                continue;
            };
            let (weights, all) = (bucket.weights()?, 0..bucket.range.len());
            let has_master = bucket.state.has_master();
            let values = has_master.then(|| bucket.own_values(&all)).transpose()?;
            let tensors = PartTensors {
                weights: &weights,
                gradients: &gradients,
                states: &[],
                compute: values.as_ref(),
            };
            for (index, parameter) in bucket.parameters.iter().enumerate() {
                if !self.0.options.is_factored(parameter) {
                    continue;
                }
                let rule = rule(parameter);
                let piece = piece((bucket, index), &tensors, &all, rule.weight_decay)?;
                if let Some(piece) = piece {
                    let number = parameter.settled().map_or(0, |home| home.index);
                    update(rule.rate_factor, &clips.rows(2 * number, 2)?, &[piece])?;
                }
            }
        }
        Ok(())
    }

    // Overwrites the gradients with directions. Two f64 for each parameter of the set: the factor that clips its directions, and
    // their root mean square.
    fn directions(
        &self,
        lines: &LineMeans,
        factoring: Factoring,
        factor: &Tensor,
    ) -> Result<Tensor> {
        let pieces = self.factored_pieces()?;
        let (device, parameters) = (self.0.context.device(), self.0.parameters.iter());
        let factored = parameters.filter(|parameter| self.0.options.is_factored(parameter));
        let factored: Vec<&Parameter> = factored.collect();
        let count = lines.means.num_elements();
        let factors = self.line_zeros(lines.means.dtype(), count)?;
        let sums = self.line_sums(lines, &pieces, count)?;
        let matrix = |parameter: &&Parameter| {
            let both = |all: &Tensor| -> Result<[Tensor; 2]> {
                let [rows, columns] = [0, 1].map(|of| lines.all_of(all, parameter, of));
                Ok([rows?, columns?])
            };
            Ok(FactoredMatrix {
                largest: both(&sums.largest)?,
                sums: both(&sums.squares)?,
                means: both(&lines.means)?,
                factors: both(&factors)?,
            })
        };
        let matrices = factored.iter().map(matrix).collect::<Result<Vec<_>>>()?;
        factored::factor_means(device, &matrices, factor, factoring.means)?;
        let directed = pieces.iter().map(|piece| {
            let [rows, columns] =
                [0, 1].map(|of| lines.view(&factors, piece.parameter, of, piece.lines[of].clone()));
            Ok(FactoredPiece {
                gradients: piece.gradients.clone(),
                place: piece.place,
                factors: [rows?, columns?],
            })
        });
        factored::factor_directions(device, &directed.collect::<Result<Vec<_>>>()?, factor)?;
        drop(sums);
        // The rows of the directions suffice for the size of all.
        let sums = self.line_sums(lines, &pieces, lines.num_rows)?;
        let clips = self.line_zeros(DType::F64, 2 * self.0.parameters.len())?;
        let step = |parameter: &&Parameter| {
            let number = parameter.settled().map_or(0, |home| home.index);
            Ok(FactoredStep {
                largest: lines.all_of(&sums.largest, parameter, 0)?,
                sums: lines.all_of(&sums.squares, parameter, 0)?,
                clip: clips.rows(2 * number, 2)?,
                elements: parameter.global_shape().iter().product(),
            })
        };
        let steps = factored.iter().map(step).collect::<Result<Vec<_>>>()?;
        factored::clip_directions(device, &steps, factor, factoring.most)?;
        Ok(clips)
    }

    fn factored_pieces(&self) -> Result<Vec<Piece<'_>>> {
        let mut pieces = Vec::new();
        for bucket in &self.0.buckets {
            let Some(gradients) = bucket.own_gradients()? else {
                continue;
            };
            for (parameter, place) in bucket.parameters.iter().zip(&bucket.places) {
                if !self.0.options.is_factored(parameter) {
                    continue;
                }
                let last = parameter.global_shape().len() - 1;
                let (first_column, columns) =
                    (parameter.index().start[last], parameter.local_shape()[last]);
                let mut start = place.start;
                for (run, rows) in runs_of_rows(parameter).into_iter().enumerate() {
                    let held = start..start + rows.len() * columns;
                    let own = common(&held, &bucket.range);
                    start = held.end;
                    if own.is_empty() {
                        continue;
                    }
                    let (first, end) = (own.start - held.start, own.end - held.start);
                    let touched = rows.start + first / columns..rows.start + end.div_ceil(columns);
                    pieces.push(Piece {
                        parameter,
                        gradients: gradients.rows(own.start - bucket.range.start, own.len())?,
                        place: LinePlace {
                            columns,
                            start: first % columns,
                        },
                        lines: [touched, first_column..first_column + columns],
                        run,
                    });
                }
            }
        }
        Ok(pieces)
    }

    // The sums of the gradients' first `count` lines over all ranks: those of rows, or of rows and columns.
    fn line_sums(&self, lines: &LineMeans, pieces: &[Piece<'_>], count: usize) -> Result<LineSums> {
        let sums = LineSums {
            largest: self.line_zeros(DType::F64, count)?,
            squares: self.line_zeros(DType::F64, count)?,
        };
        let context = &self.0.context;
        // Each element counts on one of the ranks that hold it.
        let counted = pieces.iter();
        let counted = counted.filter(|piece| piece.parameter.counts_in_norm(context));
        // Runs of one parameter share its columns.
        let mut groups: Vec<Vec<LinePiece>> = Vec::new();
        for piece in counted {
            let view = |all: &Tensor| -> Result<Lines> {
                let of = |of| lines.view(all, piece.parameter, of, piece.lines[of].clone());
                let columns = (count > lines.num_rows).then(|| of(1));
                Ok(Lines {
                    rows: of(0)?,
                    columns: columns.transpose()?,
                })
            };
            groups.resize_with(groups.len().max(piece.run + 1), Vec::new);
            let [rows, columns] = num_lines(piece.parameter.global_shape());
            groups[piece.run].push(LinePiece {
                elements: piece.gradients.clone(),
                place: piece.place,
                largest: view(&sums.largest)?,
                sums: view(&sums.squares)?,
                terms: [columns, rows],
            });
        }
        for group in &groups {
            factored::line_largest(group)?;
        }
        self.over_lines(&sums.largest, ReduceOp::Max)?;
        for group in &groups {
            factored::line_squares(group)?;
        }
        self.over_lines(&sums.squares, ReduceOp::Sum)?;
        Ok(sums)
    }

    // Over all axes whose ranks count different elements.
    fn over_lines(&self, numbers: &Tensor, op: ReduceOp) -> Result<()> {
        let context = &self.0.context;
        let compute = context.device().compute();
        let shards = self.0.options.sharding.shards_state();
        let data = shards.then_some(Axis::Data);
        for axis in Axis::tensor().into_iter().chain(data) {
            if let Some(group) = context.group(axis, Purpose::Main)? {
                group.all_reduce(context, Subject::Means, &compute, numbers, op)?;
            }
        }
        Ok(())
    }
}
