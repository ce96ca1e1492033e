//! Numbers of rows whose features an axis cuts, from the parts that each rank holds.

use super::{Features, Wire, features::runs};
use crate::{Context, Purpose, Reproducible, counters::Subject};
use grid::{Axis, feature_range};
use hal::Counts;
use std::ops::Range;
use tensor::{DType, Error, Result, Tensor, ops};

/// The sum of the values of all nodes, on every rank of the axis that cuts the features. `own` are this rank's nodes, of
/// this shape and accumulator type; a rank without features has none.
///
/// # Errors
/// Those of the collectives.
pub(crate) fn sum_nodes(
    context: &Context,
    subject: Subject,
    features: &Features,
    own: &[Tensor],
    (dtype, shape): (DType, &[usize]),
) -> Result<Tensor> {
    let group = context
        .group(features.axis, Purpose::Main)?
        .expect("several ranks cut the features");
    let stream = context.device().compute();
    let wire = Wire {
        context,
        group: &group,
        subject,
        stream: &stream,
    };
    let counts = wire.parts(shape.iter().product());
    let part = wire.sum(own, dtype, &features.held, &counts)?;
    let whole = context.buffer(dtype, shape)?;
    wire.gather(&part, &counts, &whole)?;
    Ok(whole)
}

/// Numbers that each rank computes from parts of `len` features that `axis` cuts, on every rank: a part is a node if sums
/// are to be reproducible, and otherwise a rank's features. Also the features of each part, from left to right.
///
/// `of_part` gets a part of this rank, counted from its first feature, and returns numbers of this shape.
///
/// # Shapes
/// The result: parts x shape.
/// # Errors
/// As [`Features::of`]; [`Error::Invalid`] for a rank without a part; those of `of_part` and of the collective.
pub(crate) fn statistics(
    context: &Context,
    (axis, subject): (Option<Axis>, Subject),
    len: usize,
    shape: &[usize],
    of_part: impl FnMut(Range<usize>) -> Result<Tensor>,
) -> Result<(Tensor, Vec<usize>)> {
    let group = axis.map_or(Ok(None), |axis| context.group(axis, Purpose::Main))?;
    let (Some(axis), Some(group)) = (axis, group) else {
        let mut of_part = of_part;
        return Ok((of_part(0..len)?, vec![len]));
    };
    let widths = match context.settings().reproducible {
        Reproducible::Run => (0..group.size())
            .map(|rank| vec![feature_range(len, group.size(), rank).len()])
            .collect(),
        Reproducible::Grid => Features::of(context, axis, len)?.widths(),
    };
    let own = runs(&widths[group.rank()]).into_iter().map(of_part);
    let own: Vec<Tensor> = own.collect::<Result<_>>()?;
    let elements = shape.iter().product::<usize>();
    let local = joined(context, &own, elements)?;
    let counts = match widths.iter().all(|of_rank| of_rank.len() == own.len()) {
        true => Counts::Even(own.len() * elements),
        false => Counts::Uneven(
            widths
                .iter()
                .map(|of_rank| of_rank.len() * elements)
                .collect(),
        ),
    };
    let widths = widths.concat();
    let parts = context.buffer(local.dtype(), &[&[widths.len()], shape].concat())?;
    let compute = context.device().compute();
    group.all_gather(context, subject, &compute, &local, &parts, &counts)?;
    Ok((parts, widths))
}

// The parts, of `elements` each, one after another in one tensor; a single part is returned as it is.
fn joined(context: &Context, own: &[Tensor], elements: usize) -> Result<Tensor> {
    match own {
        [] => Err(Error::invalid(
            "statistics",
            "a rank without features",
            "one at least",
        )),
        [one] => Ok(one.clone()),
        [first, ..] => {
            let all = context.buffer(first.dtype(), &[own.len() * elements])?;
            for (place, part) in own.iter().enumerate() {
                let part = part.reshape(&[elements])?;
                ops::copy(&part, &all.rows(place * elements, elements)?)?;
            }
            Ok(all)
        }
    }
}
