//! Whether a model computes what another program's tensors say.

use super::ForeignModel;
use crate::{Config, Error, ModelConfig, Result, config::Precision, generate, trainer};
use bootstrap::World;
use grid::Grid;
use parallel::{Batch, Context, Input, MicroBatch, Model, Route, Wires, layers::Loss};
use serde::Serialize;
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    rc::Rc,
};
use tensor::{Device, Tensor};
use trainer::Weights;

/// The largest difference, as a share of the root mean square of a segment's output. Both sides compute in f64; sums in
/// another order leave about 1e-13 after many layers, and the smallest mistake in a setting more than this.
const NEEDED: f64 = 1e-9;

/// What was compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Proof {
    /// The number of segments.
    pub segments: usize,
    /// The number of tokens.
    pub tokens: usize,
    /// The largest difference, as a share of the root mean square of a segment's output.
    pub difference: f64,
}

/// Compares the output of every segment of a model with the one that its format computes from the folder's own tensors, for
/// one short sequence; those of a model with adapters too, whose products are added to the folder's matrices. `weights` are the model's: those of the folder itself before an import, those of a checkpoint after an
/// export. On one rank.
///
/// # Cost
/// Both sides compute in f64: 8 bytes a parameter for the model, and as much for the largest tensor of the folder.
/// # Errors
/// [`Error::Unproved`] with the first segment that differs; [`Error::Mismatch`] for weights that are not those of the model;
/// [`Error::Checkpoint`] if they cannot be read; [`Error::Parallel`] if the device lacks memory.
pub fn prove(
    (world, device): (&World, &Device),
    model: &ModelConfig,
    weights: &dyn Weights,
    foreign: &ForeignModel,
) -> Result<Proof> {
    let tokens = foreign.format.tokens(model);
    let config = Config {
        model: model.clone(),
        ..foreign.config()
    };
    let (found, kinds) = outputs((world, device), config, weights, &tokens)?;
    let needed = foreign
        .format
        .outputs(&foreign.settings, &foreign.judged, &tokens)?;
    let mut difference: f64 = 0.0;
    for (segment, (found, needed)) in found.iter().zip(&needed).enumerate() {
        let share = largest_difference(found, needed, tokens.len());
        // A NaN is a difference too.
        if !share.is_some_and(|share| share <= NEEDED) {
            return Err(Error::Unproved {
                path: foreign.folder().to_owned(),
                segment,
                kind: kinds[segment].clone(),
                found: share.unwrap_or(f64::INFINITY),
                needed: NEEDED,
                tensors: tensors_of(segment, foreign)?,
            });
        }
        difference = difference.max(share.unwrap_or_default());
    }
    match found.len() == needed.len() {
        true => Ok(Proof {
            segments: found.len(),
            tokens: tokens.len(),
            difference,
        }),
        false => Err(foreign.settings.refuse(format!(
            "found outputs of {} segments, needs {}",
            needed.len(),
            found.len()
        ))),
    }
}

// The largest difference by the root mean square of what is needed; `None` where sizes differ. Rows may be padded.
fn largest_difference(found: &[f64], needed: &[f64], rows: usize) -> Option<f64> {
    let (wide, own) = (found.len() / rows, needed.len() / rows);
    if own == 0 || wide < own || found.len() != wide * rows || needed.len() != own * rows {
        return None;
    }
    let squares: f64 = needed.iter().map(|number| number * number).sum();
    let size = (squares / needed.len() as f64)
        .sqrt()
        .max(f64::MIN_POSITIVE);
    let pairs = found.chunks(wide).zip(needed.chunks(own));
    let differences = pairs.flat_map(|(found, needed)| {
        let each = found.iter().zip(needed);
        each.map(|(found, needed)| (found - needed).abs())
    });
    let largest = differences.fold(0.0, |most: f64, next| match next.is_nan() {
        true => f64::INFINITY,
        false => most.max(next),
    });
    Some(largest / size)
}

// The other program's tensors that the parameters of a segment read.
fn tensors_of(segment: usize, foreign: &ForeignModel) -> Result<Vec<String>> {
    let builder = nn::Builder::new(&parallel::work::dry_context()?);
    foreign.config().build(&builder)?;
    let parameters = builder.parameters().into_iter();
    let own = parameters.filter(|parameter| parameter.segments().contains(&segment));
    let names = own.map(|parameter| {
        let place = foreign.place(parameter.name())?;
        Ok(place.view.tensor().to_owned())
    });
    let names: BTreeSet<String> = names.collect::<Result<_>>()?;
    Ok(names.into_iter().collect())
}

// The output of every segment for one sequence, and the segments' kinds.
fn outputs(
    (world, device): (&World, &Device),
    mut config: Config,
    weights: &dyn Weights,
    tokens: &[u32],
) -> Result<(Vec<Vec<f64>>, Vec<String>)> {
    config.training.precision = Precision::F64;
    let context = Context::new(
        world.clone(),
        Grid::serial(),
        device.clone(),
        config.settings(),
    )?;
    let seen = Rc::new(RefCell::new(BTreeMap::new()));
    let pipeline = generate::wrapped(&context, &config, |model| {
        Rc::new(Observed {
            model,
            seen: seen.clone(),
        })
    })?;
    trainer::check_weights(pipeline.declared(), weights, &[])?;
    trainer::write_weights(world, pipeline.parameters(), weights)?;
    let ids = Tensor::from_slice(device, &[1, tokens.len()], tokens)?;
    let batch = Batch {
        step: 0,
        num_rows: 1,
        micro_batches: vec![MicroBatch::new(0..1).with("inputs", ids)?],
    };
    pipeline.evaluate(&batch, |_, _, _| Ok(()))?;
    let model = pipeline.model();
    let kinds = (0..model.num_segments()).map(|segment| model.kind(segment).to_owned());
    let kinds = kinds.collect();
    let outputs = seen.take().into_values().collect();
    Ok((outputs, kinds))
}

/// A model that notes what its segments output.
struct Observed {
    model: Box<dyn Model>,
    seen: Rc<RefCell<BTreeMap<usize, Vec<f64>>>>,
}

impl Model for Observed {
    fn num_segments(&self) -> usize {
        self.model.num_segments()
    }

    fn cost(&self, segment: usize) -> Option<f64> {
        self.model.cost(segment)
    }

    fn kind(&self, segment: usize) -> &str {
        self.model.kind(segment)
    }

    fn routes(&self) -> Vec<Route> {
        self.model.routes()
    }

    fn forward(&self, segment: usize, input: &Input<'_>, wires: Wires) -> parallel::Result<Wires> {
        let wires = self.model.forward(segment, input, wires)?;
        let mut numbers = Vec::new();
        for (_, wire) in wires.iter() {
            numbers.extend(wire.tensor()?.to_f64()?);
        }
        self.seen.borrow_mut().insert(segment, numbers);
        Ok(wires)
    }

    fn objective(&self, input: &Input<'_>, wires: Wires) -> parallel::Result<Loss> {
        self.model.objective(input, wires)
    }

    fn recomputed(&self) -> Vec<Range<usize>> {
        self.model.recomputed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_shares_and_rows_may_be_padded() {
        let needed = [3.0, 4.0, 3.0, 4.0];
        let found = [3.0, 4.0, 9.0, 3.0, 4.5, 9.0];
        let share = largest_difference(&found, &needed, 2).unwrap();
        assert!((share - 0.5 / 12.5_f64.sqrt()).abs() < 1e-12, "{share}");
        assert_eq!(largest_difference(&needed, &needed, 2), Some(0.0));
        assert_eq!(largest_difference(&needed, &found, 2), None);
        let nan = [f64::NAN, 4.0, 3.0, 4.0];
        assert_eq!(largest_difference(&nan, &needed, 2), Some(f64::INFINITY));
    }
}
