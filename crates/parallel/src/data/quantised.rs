//! Buckets of weights that are stored as codes: what they stand for is read and written here.

use super::{ParameterSet, Part, bucket::Bucket};
use crate::{Parameter, Purpose, counters::Subject};
use grid::Axis;
use hal::quantised::{BLOCK, QuantisedPart};
use tensor::{DType, Error, MemoryKind, ReduceOp, Result, Tensor, ops};

impl ParameterSet {
    /// Visits what the stored weights of each wanted parameter stand for, flat; false if the bucket's are not stored as codes, or have
    /// not this part.
    pub(super) fn visit_dequantised<E: From<Error>>(
        &self,
        (bucket, part): (&Bucket, Part),
        is_wanted: &dyn Fn(&Parameter) -> bool,
        mut visit: impl FnMut(&Parameter, Tensor) -> std::result::Result<(), E>,
    ) -> std::result::Result<bool, E> {
        if !bucket.is_quantised {
            return Ok(false);
        }
        let stored = match part {
            Part::Values | Part::Weights => bucket.values.tensor()?,
            Part::Previous(updates) => bucket.previous(updates)?,
            _ => return Ok(false),
        };
        let parameters = bucket.parameters.iter().zip(&bucket.places);
        for (parameter, place) in parameters.filter(|(parameter, _)| is_wanted(parameter)) {
            let stored = stored.rows(place.start, place.len())?;
            let dtype = self.options().dtype_of(part, parameter);
            let values = parameter.dequantised(&stored, dtype)?;
            visit(parameter, values.reshape(&[parameter.num_elements()])?)?;
        }
        Ok(true)
    }

    /// Sets the weights to their initial values, drawn on that many threads.
    ///
    /// # Errors
    /// Those of the collective.
    pub(super) fn initialise_quantised(&self, bucket: &Bucket, threads: usize) -> Result<()> {
        let seed = self.0.context.settings().seed;
        let drawn = |parameter: &Parameter| {
            let mut values = vec![0.0; parameter.num_elements()];
            parameter.draw_initial(seed, threads, &mut values);
            values
        };
        let numbers: Vec<Vec<f64>> = bucket.parameters.iter().map(drawn).collect();
        self.store_quantised(bucket, Part::Weights, &numbers)?;
        Ok(())
    }

    /// Stores the codes of these numbers, parameter by parameter; returns whether they stand for exactly these. Ranks that hold parts
    /// of the same blocks agree on their scales.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a part that is not of weights; those of the collective.
    pub(super) fn store_quantised(
        &self,
        bucket: &Bucket,
        part: Part,
        numbers: &[Vec<f64>],
    ) -> Result<bool> {
        let stored = match part {
            Part::Values | Part::Weights => bucket.values.tensor()?,
            Part::Previous(updates) => bucket.previous(updates)?,
            _ => return Err(Error::invalid("codes", format!("{part:?}"), "weights")),
        };
        let threads = self.0.context.threads_of_host();
        let parameters = bucket.parameters.iter().zip(&bucket.places).zip(numbers);
        let mut is_exact = true;
        for ((parameter, place), numbers) in parameters {
            let Some(part) = parameter.quantised_part() else {
                continue;
            };
            let own = scales(parameter, &part, numbers)?;
            let scales = self.agree_on_scales(parameter, &part, own)?;
            let bytes = part.store(threads, numbers, &scales);
            is_exact &= part.stands_for(threads, numbers, &bytes);
            stored.rows(place.start, place.len())?.upload(&bytes)?;
        }
        Ok(is_exact)
    }

    // The largest of what the ranks found that hold a part of a block.
    fn agree_on_scales(
        &self,
        parameter: &Parameter,
        part: &QuantisedPart,
        own: Vec<f32>,
    ) -> Result<Vec<f32>> {
        let context = &self.0.context;
        let axes: Vec<Axis> = parameter.column_axes(context);
        if !parameter.cuts_blocks(context, &axes, BLOCK) {
            return Ok(own);
        }
        let (device, of_row) = (context.device(), part.blocks_of_row());
        let width = parameter.global_shape()[1].div_ceil(BLOCK);
        let [own, all] = device.allocating(MemoryKind::Buffers, || {
            let own = Tensor::from_slice(device, &[part.rows, of_row.len()], &own)?;
            let all = Tensor::zeros(device, DType::F32, &[part.rows, width])?;
            Ok([own, all])
        })?;
        ops::set_columns(&all, of_row.start, &own)?;
        for axis in axes {
            if let Some(group) = context.group(axis, Purpose::Main)? {
                let compute = device.compute();
                group.all_reduce(context, Subject::Scales, &compute, &all, ReduceOp::Max)?;
            }
        }
        ops::columns(&all, of_row.start, of_row.len())?.to_vec()
    }
}

// Of weights that have them: none is NaN, or beyond f32.
fn scales(parameter: &Parameter, part: &QuantisedPart, numbers: &[f64]) -> Result<Vec<f32>> {
    let (found, needed) = (numbers.len(), parameter.num_elements());
    let refuse = |found: String, needed: String| {
        let operation = format!("parameter {}", parameter.name());
        Err(Error::invalid(operation, found, needed))
    };
    if found != needed {
        return refuse(format!("{found} numbers"), needed.to_string());
    }
    let is_coded = |number: &f64| (*number as f32).is_finite();
    match numbers.iter().find(|number| !is_coded(number)) {
        Some(number) => refuse(number.to_string(), format!("a number of {}", part.format)),
        None => Ok(part.scales(numbers)),
    }
}
