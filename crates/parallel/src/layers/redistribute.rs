//! Changes the axis that cuts the features.

use super::DTensor;
use crate::{Context, Purpose, counters::Subject, report::Redistribution};
use grid::{Axis, feature_range};
use hal::Counts;
use tensor::{Result, Tensor, Var, ops};

impl DTensor {
    /// The same value with its features cut by `to`, or in full; `place` names the caller in the report.
    ///
    /// # Cost
    /// None if the layout is already right. From an axis of several ranks, an all-gather of the features over
    /// it, and then a local cut. Backward does the reverse.
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for another axis than X and Y; those of the collective.
    pub fn redistribute(&self, to: Option<Axis>, place: &str) -> Result<DTensor> {
        let pass = self.pass().clone();
        let context = pass.context();
        let degree = |axis: Option<Axis>| axis.map_or(1, |axis| context.degree(axis));
        let (from, features) = (self.cut(), self.features());
        if to == Some(Axis::X) && self.share().runs {
            return self.of_tokens()?.redistribute(to, place);
        }
        let spread = self.spread().cloned();
        if from == to || (degree(from) == 1 && degree(to) == 1) {
            let var = self.held_var().clone();
            return DTensor::spread_over(&pass, var, (features, to), spread);
        }
        let gathered_bytes = match degree(from) {
            1 => 0,
            _ => self.held().num_rows() * features * self.dtype().bytes(),
        };
        context.note_redistribution(Redistribution {
            place: place.into(),
            from,
            to,
            gathered_bytes,
        });
        let out = moved(context, self.held(), features, from, to)?;
        let other = context.clone();
        let inputs = [self.held_var()];
        let var = Var::record_one("redistribute", &inputs, out, false, move |d_out| {
            Ok(vec![Some(moved(&other, &d_out, features, to, from)?)])
        });
        DTensor::spread_over(&pass, var, (features, to), spread)
    }

    /// The full features on every rank.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn whole(&self, place: &str) -> Result<DTensor> {
        self.redistribute(None, place)
    }
}

fn moved(
    context: &Context,
    x: &Tensor,
    features: usize,
    from: Option<Axis>,
    to: Option<Axis>,
) -> Result<Tensor> {
    let whole = match from {
        Some(axis) => gathered(context, x, features, axis)?,
        None => x.clone(),
    };
    let Some(axis) = to.filter(|&axis| context.degree(axis) > 1) else {
        return Ok(whole);
    };
    let shard = feature_range(features, context.degree(axis), context.index(axis));
    ops::columns(&whole, shard.start, shard.len())
}

// Shards of columns arrive one after the other and are then placed side by side.
fn gathered(context: &Context, x: &Tensor, features: usize, axis: Axis) -> Result<Tensor> {
    let Some(group) = context.group(axis, Purpose::Main)? else {
        return Ok(x.clone());
    };
    let rows = x.num_rows();
    let shards: Vec<_> = (0..group.size())
        .map(|rank| feature_range(features, group.size(), rank))
        .collect();
    let counts = Counts::Uneven(shards.iter().map(|shard| rows * shard.len()).collect());
    let parts = context.buffer(x.dtype(), &[rows * features])?;
    group.all_gather(
        context,
        Subject::Layout,
        &context.device().compute(),
        x,
        &parts,
        &counts,
    )?;
    let shape = [&x.shape()[..x.shape().len() - 1], &[features]].concat();
    let whole = Tensor::empty(x.device(), x.dtype(), &shape)?;
    for shard in shards {
        let part = parts
            .rows(rows * shard.start, rows * shard.len())?
            .reshape(&[rows, shard.len()])?;
        ops::set_columns(&whole, shard.start, &part)?;
    }
    Ok(whole)
}
