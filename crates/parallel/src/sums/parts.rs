//! Numbers of rows whose features an axis cuts, from the parts that each rank holds.

use super::{Held, Wire};
use crate::{Context, Purpose, Reproducible, counters::Subject};
use grid::{Axis, feature_range};
use hal::{Counts, sums};
use std::ops::Range;
use tensor::{Result, Tensor, ops};

/// The features of this rank's nodes, counted from its first one.
///
/// # Errors
/// As [`Held::of_features`].
pub(crate) fn own_features(context: &Context, axis: Axis, len: usize) -> Result<Vec<Range<usize>>> {
    let held = Held::of_features(context, axis, len)?;
    let (leaf, index) = (sums::leaf(len), context.index(axis));
    let shard = feature_range(len, context.degree(axis), index);
    let within = |node: &Range<usize>| {
        node.start * leaf - shard.start..(node.end * leaf).min(shard.end) - shard.start
    };
    Ok(held.of(index).iter().map(within).collect())
}

/// The sum of the values of all nodes over `len` features that `axis` cuts, on every rank of it. `own` are this rank's
/// nodes, of one shape and of an accumulator type.
///
/// # Errors
/// As [`ProductSum::add`](super::ProductSum::add).
pub(crate) fn sum_nodes(
    context: &Context,
    (axis, subject): (Axis, Subject),
    len: usize,
    own: &[Tensor],
) -> Result<Option<Tensor>> {
    let (Some(group), Some(first)) = (context.group(axis, Purpose::Main)?, own.first()) else {
        return Ok(own.first().cloned());
    };
    let stream = context.device().compute();
    let wire = Wire {
        context,
        group: &group,
        subject,
        stream: &stream,
    };
    let held = Held::of_features(context, axis, len)?;
    let counts = wire.parts(first.num_elements());
    let part = wire.sum(own, first.dtype(), &held, &counts)?;
    let whole = context.buffer(first.dtype(), first.shape())?;
    wire.gather(&part, &counts, &whole)?;
    Ok(Some(whole))
}

/// Numbers that each rank computes from parts of `len` features that `axis` cuts, on every rank: a part is a node if sums
/// are to be reproducible, and otherwise a rank's features. Also the features of each part, from left to right.
///
/// `of_part` gets a part of this rank, counted from its first feature, and returns numbers of this shape.
///
/// # Shapes
/// The result: parts x shape.
/// # Errors
/// As [`ProductSum::add`](super::ProductSum::add); those of `of_part`.
pub(crate) fn statistics(
    context: &Context,
    (axis, subject): (Option<Axis>, Subject),
    len: usize,
    shape: &[usize],
    mut of_part: impl FnMut(Range<usize>) -> Result<Tensor>,
) -> Result<(Tensor, Vec<usize>)> {
    let group = axis.map_or(Ok(None), |axis| context.group(axis, Purpose::Main))?;
    let (Some(axis), Some(group)) = (axis, group) else {
        return Ok((of_part(0..len)?, vec![len]));
    };
    let shard = |rank| feature_range(len, group.size(), rank);
    let widths: Vec<Vec<usize>> = match context.settings().reproducible {
        Reproducible::Run => (0..group.size())
            .map(|rank| vec![shard(rank).len()])
            .collect(),
        Reproducible::Grid => {
            let (leaf, held) = (sums::leaf(len), Held::of_features(context, axis, len)?);
            let of_node = |node: &Range<usize>| (node.end * leaf).min(len) - node.start * leaf;
            let of_rank = |rank| held.of(rank).iter().map(of_node).collect();
            (0..group.size()).map(of_rank).collect()
        }
    };
    let mut start = 0;
    let own = widths[group.rank()].iter().map(|width| {
        start += width;
        of_part(start - width..start)
    });
    let own: Vec<Tensor> = own.collect::<Result<_>>()?;
    let elements = shape.iter().product::<usize>();
    let local = match &own[..] {
        [one] => one.clone(),
        _ => {
            let Some(first) = own.first() else {
                return Err(crate::Error::invalid(
                    "statistics",
                    "a rank without features",
                    "one at least",
                ));
            };
            let all = context.buffer(first.dtype(), &[own.len() * elements])?;
            for (place, part) in own.iter().enumerate() {
                let part = part.reshape(&[elements])?;
                ops::copy(&part, &all.rows(place * elements, elements)?)?;
            }
            all
        }
    };
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
