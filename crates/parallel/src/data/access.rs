//! Reads and writes single parameters, for initial values, checkpoints and tests.

use super::{
    Flat, ParameterSet,
    bucket::{Bucket, common},
};
use crate::{
    Parameter,
    counters::Subject,
    digest::{self, Hashed},
};
use grid::Axis;
use std::ops::Range;
use tensor::{Error, Result, Tensor};

/// The tensors of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Its weights, in the accumulator type.
    Weights,
    /// Its weights as forward and backward read them, in the type of activations.
    Values,
    /// The values of an earlier version, by how many updates it lies behind the set's own, at least 1; of a set of
    /// [several](super::SetOptions::versions).
    Previous(usize),
    /// A state tensor of the optimiser, by its index; codes, if the state is kept as codes.
    State(usize),
    /// The scales of these codes, by the index of the state: the [own](super::SetOptions::own) ones are read, and those that
    /// the rank [holds](super::SetOptions::held) are written.
    Scales(usize),
    /// The means of its rows' squares, if the state is kept as means: the [own](super::SetOptions::own) ones are read, and those
    /// that the rank [holds](super::SetOptions::held) are written.
    RowMeans,
    /// The same of its columns.
    ColumnMeans,
    /// Its gradient.
    Gradient,
}

impl ParameterSet {
    /// Sets every parameter to its initial values, drawn on this rank's share of the host's processors. On a device without
    /// values there is nothing to set.
    pub(super) fn initialise(&self) -> Result<()> {
        let context = &self.0.context;
        if !context.device().capabilities().holds_values {
            return Ok(());
        }
        let threads = context.threads_of_host();
        for bucket in &self.0.buckets {
            if bucket.is_quantised {
                self.initialise_quantised(bucket, threads)?;
                continue;
            }
            let mut flat = vec![0.0; bucket.len()];
            for (parameter, place) in bucket.parameters.iter().zip(&bucket.places) {
                let values = &mut flat[place.clone()];
                parameter.draw_initial(context.settings().seed, threads, values);
            }
            upload((bucket, threads), Part::Weights, &flat)?;
        }
        Ok(())
    }

    /// Calls `visit` with the values of `part` in this rank's shard of each parameter that has it, in the order of buckets.
    ///
    /// Collective if the state is sharded: every rank must call it.
    ///
    /// # Errors
    /// As [`tensors`](Self::tensors); [`Error::NoValues`] on a device without values.
    pub fn read<E: From<Error>>(
        &self,
        part: Part,
        mut visit: impl FnMut(&Parameter, Vec<f64>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.tensors(part, |parameter, tensor| visit(parameter, tensor.to_f64()?))
    }

    /// Calls `visit` with `part` of this rank's shard of each parameter, flat on the device, in the order of
    /// [`with_part`](Self::with_part).
    ///
    /// Collective if the state is sharded: every rank must call it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a state tensor that the optimiser does not have, and for gradients in a set made for
    /// inference; those of the collectives and of `visit`.
    pub fn tensors<E: From<Error>>(
        &self,
        part: Part,
        visit: impl FnMut(&Parameter, Tensor) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.tensors_of(part, |_| true, visit)
    }

    /// As [`tensors`](Self::tensors), of the wanted parameters alone: those that all ranks want, or frozen ones, which no collective
    /// needs.
    ///
    /// # Errors
    /// As [`tensors`](Self::tensors).
    pub fn tensors_of<E: From<Error>>(
        &self,
        part: Part,
        is_wanted: impl Fn(&Parameter) -> bool,
        mut visit: impl FnMut(&Parameter, Tensor) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let has_wanted = |bucket: &&Bucket| bucket.parameters.iter().any(&is_wanted);
        for bucket in self.buckets_with(part).filter(has_wanted) {
            let mut visit = |parameter: &Parameter, tensor| match is_wanted(parameter) {
                true => visit(parameter, tensor),
                false => Ok(()),
            };
            if self.visit_own((bucket, part), &is_wanted, &mut visit)? {
                continue;
            }
            let whole = self.whole(bucket, part)?;
            for (parameter, place) in bucket.parameters.iter().zip(&bucket.places) {
                visit(parameter, whole.rows(place.start, place.len())?)?;
            }
        }
        Ok(())
    }

    /// A number that each write to weights of [frozen](Parameter::is_frozen) parameters changes, and nothing else does.
    pub fn frozen_version(&self) -> u64 {
        let frozen = self.0.buckets.iter().filter(|bucket| bucket.is_frozen());
        frozen.map(|bucket| bucket.values.version()).sum()
    }

    /// The parameters that have `part`, in the order of buckets.
    pub fn with_part(&self, part: Part) -> impl Iterator<Item = &Parameter> {
        self.buckets_with(part)
            .flat_map(|bucket| &bucket.parameters)
    }

    /// The hashes of what this rank holds of `part`: with sharded state, of its own shard.
    ///
    /// # Cost
    /// A copy of these values to the host, and a pass over them there.
    /// # Errors
    /// As [`read`](Self::read); no collective runs.
    pub fn hashes(&self, part: Part) -> Result<Vec<Hashed>> {
        let mut hashes = Vec::new();
        for bucket in self.buckets_with(part) {
            let all = |_: &Parameter| true;
            let is_visited =
                self.visit_dequantised::<Error>((bucket, part), &all, |parameter, values| {
                    let range = 0..values.num_elements();
                    let axes = replicas(bucket, parameter, &(0..bucket.len()));
                    hashes.push(self.hashed((bucket, parameter, part), axes, range, &values)?);
                    Ok(())
                })?;
            if is_visited {
                continue;
            }
            let (own, flat) = match part {
                Part::Scales(_) | Part::RowMeans | Part::ColumnMeans => {
                    self.visit_own::<Error>((bucket, part), &all, |parameter, numbers| {
                        let axes = replicas(bucket, parameter, &(0..bucket.len()));
                        let range = 0..numbers.num_elements();
                        hashes.push(self.hashed(
                            (bucket, parameter, part),
                            axes,
                            range,
                            &numbers,
                        )?);
                        Ok(())
                    })?;
                    continue;
                }
                Part::Values => (0..bucket.len(), bucket.values.tensor()?.clone()),
                Part::Previous(updates) => (0..bucket.len(), bucket.previous(updates)?.clone()),
                Part::Weights => (bucket.range.clone(), bucket.weights()?),
                Part::State(index) => (bucket.range.clone(), bucket.state(index)?),
                Part::Gradient => match bucket.own_gradients()? {
                    Some(own) => (bucket.range.clone(), own),
                    None => continue,
                },
            };
            for (parameter, place) in bucket.parameters.iter().zip(&bucket.places) {
                let held = common(place, &own);
                if !held.is_empty() {
                    let values = flat.rows(held.start - own.start, held.len())?;
                    let range = held.start - place.start..held.end - place.start;
                    let axes = replicas(bucket, parameter, &own);
                    hashes.push(self.hashed((bucket, parameter, part), axes, range, &values)?);
                }
            }
        }
        Ok(hashes)
    }

    // Visits the numbers that count as this rank's own, of a part of which ranks hold more than that, and what codes of weights
    // stand for; false for other parts.
    fn visit_own<E: From<Error>>(
        &self,
        (bucket, part): (&Bucket, Part),
        is_wanted: &dyn Fn(&Parameter) -> bool,
        visit: impl FnMut(&Parameter, Tensor) -> std::result::Result<(), E>,
    ) -> std::result::Result<bool, E> {
        match part {
            Part::Scales(state) => self.own_scales(bucket, state, visit)?,
            Part::RowMeans => self.visit_own_means(bucket, 0, visit)?,
            Part::ColumnMeans => self.visit_own_means(bucket, 1, visit)?,
            _ => return self.visit_dequantised((bucket, part), is_wanted, visit),
        }
        Ok(true)
    }

    fn hashed(
        &self,
        (bucket, parameter, part): (&Bucket, &Parameter, Part),
        replicas: Vec<Axis>,
        range: Range<usize>,
        values: &Tensor,
    ) -> Result<Hashed> {
        let context = &self.0.context;
        let degrees = replicas.iter().map(|axis| match axis {
            Axis::Pipeline => bucket.tied.as_ref().map_or(1, Vec::len),
            axis => context.degree(*axis),
        });
        let is_first = |axis: &Axis| match axis {
            Axis::Pipeline => self.is_first_copy(parameter),
            axis => context.index(*axis) == 0,
        };
        let options = self.options();
        let (shape, index) = (
            options.shape_of(part, parameter),
            options.own(part, parameter),
        );
        Ok(Hashed {
            name: parameter.name().to_owned(),
            copies: degrees.product(),
            counts: replicas.iter().all(is_first),
            sums: digest::sums(&shape, &index, range.clone(), values)?,
            index,
            replicas,
            range,
        })
    }

    /// Sets `part` of each parameter that has it to the values that `numbers` returns for its shard. Returns whether frozen parameters
    /// now hold these as they are, none of them rounded.
    ///
    /// Collective if weights are stored [as codes](Parameter::quantise): every rank must call it.
    ///
    /// # Errors
    /// [`Error::Invalid`] if their number does not match the shard, and for a state tensor that the optimiser does not
    /// have; those of `numbers`.
    pub fn write<E: From<Error>>(
        &self,
        part: Part,
        mut numbers: impl FnMut(&Parameter) -> std::result::Result<Vec<f64>, E>,
    ) -> std::result::Result<bool, E> {
        let mut is_exact = true;
        for bucket in self.buckets_with(part) {
            let given = bucket
                .parameters
                .iter()
                .map(&mut numbers)
                .collect::<std::result::Result<Vec<_>, E>>()?;
            match part {
                Part::Scales(state) => self.set_scales(bucket, state, &given)?,
                Part::RowMeans => self.set_means(bucket, 0, &given)?,
                Part::ColumnMeans => self.set_means(bucket, 1, &given)?,
                _ if bucket.is_quantised => {
                    is_exact &= self.store_quantised(bucket, part, &given)?;
                }
                _ => {
                    is_exact &= !bucket.is_frozen() || self.is_held(&given);
                    self.fill(bucket, part, given)?;
                }
            }
        }
        Ok(is_exact)
    }

    // Whether the type of weights has these numbers.
    fn is_held(&self, given: &[Vec<f64>]) -> bool {
        let (threads, dtype) = (self.0.context.threads_of_host(), self.0.options.dtype);
        let mut all = given.iter();
        all.all(|numbers| tensor::is_exact(threads, dtype, numbers))
    }

    // Frozen parameters have only weights, and matrices that are updated as a whole a number of states of their own.
    fn buckets_with(&self, part: Part) -> impl Iterator<Item = &Bucket> {
        let most = self
            .0
            .buckets
            .iter()
            .map(|bucket| bucket.state.num_states());
        let most = most.max().unwrap_or(0);
        self.0.buckets.iter().filter(move |bucket| match part {
            Part::Weights | Part::Values => true,
            Part::Previous(updates) => updates < self.0.options.versions,
            // A state that no parameter has is an error of the caller.
            Part::State(index) if index < most => index < bucket.state.num_states(),
            Part::Scales(_) => bucket.scales.is_some(),
            Part::RowMeans | Part::ColumnMeans => {
                let mut parameters = bucket.parameters.iter();
                parameters.any(|parameter| self.0.options.is_factored(parameter))
            }
            Part::State(_) | Part::Gradient => !bucket.is_frozen(),
        })
    }

    fn whole(&self, bucket: &Bucket, part: Part) -> Result<Tensor> {
        let (context, subject) = (&self.0.context, Subject::Gradients);
        match part {
            Part::Values => bucket.values.tensor().cloned(),
            Part::Previous(updates) => bucket.previous(updates).cloned(),
            Part::Weights if !bucket.state.has_master() => bucket.values.tensor().cloned(),
            Part::Weights => bucket.whole(context, subject, &bucket.weights()?),
            Part::State(index) => bucket.whole(context, subject, &bucket.state(index)?),
            Part::Scales(_) | Part::RowMeans | Part::ColumnMeans => Err(not_flat(part)),
            Part::Gradient => match bucket.own_gradients()? {
                Some(own) => bucket.whole(context, subject, &own),
                None => Err(Error::invalid("gradients", "none", "a set that trains")),
            },
        }
    }

    fn fill(&self, bucket: &Bucket, part: Part, given: Vec<Vec<f64>>) -> Result<()> {
        let mut flat = vec![0.0; bucket.len()];
        for ((parameter, place), numbers) in bucket.parameters.iter().zip(&bucket.places).zip(given)
        {
            if numbers.len() != place.len() {
                let found = format!("{} numbers", numbers.len());
                return Err(Error::invalid(
                    format!("parameter {}", parameter.name()),
                    found,
                    place.len().to_string(),
                ));
            }
            flat[place.clone()].copy_from_slice(&numbers);
        }
        upload((bucket, self.0.context.threads_of_host()), part, &flat)
    }
}

// The axes along which ranks hold the same elements of a parameter, if replicas hold `own` of its bucket.
fn replicas(bucket: &Bucket, parameter: &Parameter, own: &Range<usize>) -> Vec<Axis> {
    let holds_all = |axis: &Axis| match axis {
        Axis::Data => own.len() == bucket.len(),
        Axis::Pipeline => bucket.tied.is_some(),
        axis => parameter.layout().cuts(*axis).is_none(),
    };
    Axis::ALL.into_iter().filter(holds_all).collect()
}

// On that many threads.
fn upload((bucket, threads): (&Bucket, usize), part: Part, flat: &[f64]) -> Result<()> {
    let own = &flat[bucket.range.clone()];
    let upload_if_any = |into: &Option<Flat>, numbers| match into {
        Some(into) => into.tensor()?.upload_f64_on(threads, numbers),
        None => Ok(()),
    };
    match part {
        Part::State(index) => bucket.state.set(index, (threads, own)),
        // They have another number than the weights.
        Part::Scales(_) | Part::RowMeans | Part::ColumnMeans => Err(not_flat(part)),
        Part::Gradient if bucket.shards_gradients() => upload_if_any(&bucket.gradients, own),
        Part::Gradient => upload_if_any(&bucket.gradients, flat),
        Part::Values => bucket.values.tensor()?.upload_f64_on(threads, flat),
        Part::Previous(updates) => bucket.previous(updates)?.upload_f64_on(threads, flat),
        Part::Weights => {
            bucket.values.tensor()?.upload_f64_on(threads, flat)?;
            bucket.state.set_master((threads, own))
        }
    }
}

fn not_flat(part: Part) -> Error {
    let found = format!("{part:?}");
    Error::invalid(
        "buffer of a bucket",
        found,
        "a part of one number for each weight",
    )
}
