//! The update of parameters whose state is kept as 8-bit codes: the ranks that hold a part of a block agree on its scale.
//!
//! A scale is a maximum, so it is exact in any order. Shards are not aligned to blocks: rows may be short, and then a block is a
//! whole row, which X or Y must be able to cut.

use super::{
    ParameterSet, UpdateRule,
    blocks::{Rows, Scales},
    bucket::{Bucket, common},
};
use crate::{Parameter, Purpose, counters::Subject};
use grid::Axis;
use hal::codes::{BLOCK, BlockPlace};
use tensor::{
    DType, Error, MemoryKind, ReduceOp, Result, Tensor,
    ops::{self, coded::CodedUpdate},
};

impl ParameterSet {
    /// As [`Gradients::update_coded`](super::Gradients::update_coded).
    pub(super) fn update_coded<E: From<Error>>(
        &self,
        rule: impl Fn(&Parameter) -> UpdateRule,
        mut scales: impl FnMut(f64, &[CodedUpdate]) -> std::result::Result<(), E>,
        mut update: impl FnMut(f64, &[CodedUpdate]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let coded = self.0.buckets.iter();
        let coded = coded.filter_map(|bucket| Some((bucket, bucket.scales.as_ref()?)));
        let coded: Vec<(&Bucket, &Scales)> = coded.collect();
        // Where weights or gradients come from beyond the device, bucket by bucket.
        let at_once = match self.0.options.places.has_pages() {
            true => 1,
            false => coded.len().max(1),
        };
        let mut some = coded.chunks(at_once);
        some.try_for_each(|some| self.update_some_coded(some, &rule, &mut scales, &mut update))
    }

    fn update_some_coded<E: From<Error>>(
        &self,
        coded: &[(&Bucket, &Scales)],
        rule: &impl Fn(&Parameter) -> UpdateRule,
        scales: &mut impl FnMut(f64, &[CodedUpdate]) -> std::result::Result<(), E>,
        update: &mut impl FnMut(f64, &[CodedUpdate]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut nexts = Vec::new();
        let mut groups: Vec<(f64, Vec<CodedUpdate>)> = Vec::new();
        for &(bucket, own) in coded {
            let next = self.zeros(own.all.dtype(), own.all.num_elements())?;
            self.pieces(bucket, own, &next, rule, &mut groups)?;
            nexts.push((bucket, own, next));
        }
        for (factor, pieces) in &groups {
            scales(*factor, pieces)?;
        }
        for (bucket, own, next) in &nexts {
            self.agree(bucket, own, next)?;
        }
        for (factor, pieces) in &groups {
            update(*factor, pieces)?;
        }
        for (_, own, next) in &nexts {
            ops::copy(next, &own.all)?;
        }
        Ok(())
    }

    // One piece for each parameter of which this rank updates a part, grouped by the factor of its rate.
    fn pieces(
        &self,
        bucket: &Bucket,
        scales: &Scales,
        next: &Tensor,
        rule: &impl Fn(&Parameter) -> UpdateRule,
        groups: &mut Vec<(f64, Vec<CodedUpdate>)>,
    ) -> Result<()> {
        let Some(gradients) = bucket.own_gradients()? else {
            return Ok(());
        };
        let weights = bucket.weights()?;
        let parameters = bucket.parameters.iter().zip(&bucket.places);
        for (index, (parameter, place)) in parameters.enumerate() {
            let own = common(place, &bucket.range);
            if own.is_empty() {
                continue;
            }
            let (start, len, rows) = (own.start, own.len(), Rows::of(parameter));
            let view = |flat: &Tensor| flat.rows(start - bucket.range.start, len);
            let blocks = |all: &Tensor| -> Result<[Tensor; 2]> {
                let of = |state| scales.view(all, state, index, &rows);
                Ok([of(0)?, of(1)?])
            };
            let is_separate = bucket.state.has_master();
            let UpdateRule {
                rate_factor,
                weight_decay,
            } = rule(parameter);
            let update = CodedUpdate {
                weights: view(&weights)?,
                gradients: view(&gradients)?,
                codes: [view(&bucket.state(0)?)?, view(&bucket.state(1)?)?],
                scales: blocks(&scales.all)?,
                next: blocks(next)?,
                place: BlockPlace {
                    columns: rows.columns,
                    first_column: rows.first_column,
                    start: start - place.start,
                },
                compute: is_separate
                    .then(|| bucket.values.tensor()?.rows(start, len))
                    .transpose()?,
                weight_decay,
            };
            let group = groups.iter_mut().find(|(factor, _)| *factor == rate_factor);
            match group {
                Some((_, pieces)) => pieces.push(update),
                None => groups.push((rate_factor, vec![update])),
            }
        }
        Ok(())
    }

    // The largest of what the ranks found that hold a part of a block.
    fn agree(&self, bucket: &Bucket, scales: &Scales, next: &Tensor) -> Result<()> {
        let context = &self.0.context;
        if bucket.is_sharded() {
            self.largest(Axis::Data, next)?;
        }
        let mut cuts: Vec<(Vec<Axis>, Vec<usize>)> = Vec::new();
        for (index, parameter) in bucket.parameters.iter().enumerate() {
            let axes = parameter.column_axes(context);
            if parameter.cuts_blocks(context, &axes, BLOCK) {
                match cuts.iter_mut().find(|(others, _)| *others == axes) {
                    Some((_, indices)) => indices.push(index),
                    None => cuts.push((axes, vec![index])),
                }
            }
        }
        for (axes, indices) in cuts {
            self.agree_across(&axes, &indices, (bucket, scales, next))?;
        }
        Ok(())
    }

    // The same for parameters whose rows these axes cut: all ranks of a row see all of its blocks.
    fn agree_across(
        &self,
        axes: &[Axis],
        indices: &[usize],
        (bucket, scales, next): (&Bucket, &Scales, &Tensor),
    ) -> Result<()> {
        let num_states = bucket.state.num_states();
        let width = |index: usize| {
            let shape = bucket.parameters[index].global_shape();
            shape[shape.len() - 1].div_ceil(BLOCK)
        };
        let rows = |index: usize| Rows::of(&bucket.parameters[index]);
        let sizes = indices
            .iter()
            .map(|index| rows(*index).count * width(*index));
        let all = self.zeros(next.dtype(), num_states * sizes.sum::<usize>())?;
        let (mut start, mut parts) = (0, Vec::new());
        for state in 0..num_states {
            for &index in indices {
                let (rows, width) = (rows(index), width(index));
                let part = all.rows(start, rows.count * width)?;
                start += rows.count * width;
                let part = part.reshape(&[rows.count, width])?;
                parts.push((part, scales.view(next, state, index, &rows)?, rows.of_row));
            }
        }
        for (part, own, of_row) in parts.iter().filter(|(_, own, _)| own.num_elements() > 0) {
            ops::set_columns(part, of_row.start, own)?;
        }
        for axis in axes {
            self.largest(*axis, &all)?;
        }
        for (part, own, of_row) in parts.iter().filter(|(_, own, _)| own.num_elements() > 0) {
            ops::columns_into(part, of_row.start, of_row.len(), own)?;
        }
        Ok(())
    }

    fn largest(&self, axis: Axis, scales: &Tensor) -> Result<()> {
        let context = &self.0.context;
        match context.group(axis, Purpose::Main)? {
            Some(group) if scales.num_elements() > 0 => {
                let compute = context.device().compute();
                group.all_reduce(context, Subject::Scales, &compute, scales, ReduceOp::Max)
            }
            _ => Ok(()),
        }
    }

    fn zeros(&self, dtype: DType, elements: usize) -> Result<Tensor> {
        let device = self.0.context.device();
        device.allocating(MemoryKind::Buffers, || {
            Tensor::zeros(device, dtype, &[elements])
        })
    }
}
