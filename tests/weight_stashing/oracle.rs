//! One rank without a pipeline, which keeps the weights after every update and gives each stage's part of the model the ones that it
//! would read.

use crate::{
    STEPS, Weights,
    subject::{Subject, UPDATES},
};
use parallel::{
    Parameter, Reproducible,
    data::{ParameterSet, Part, UpdateRule},
};
use std::{collections::BTreeMap, ops::Range};
use tensor::{DType, Device, Tensor, ops::optimiser};
use testkit::ranks;
use train::{Error, optimiser::UpdateCall, trainer::Computed};

/// Losses of steps, and the weights after each update.
pub struct Oracle {
    pub losses: Vec<f64>,
    pub after: Vec<Weights>,
}

pub fn weights(set: &ParameterSet) -> train::Result<Weights> {
    let mut all = Weights::new();
    set.read::<Error>(Part::Weights, |parameter, values| {
        all.insert(parameter.name().to_owned(), values);
        Ok(())
    })?;
    Ok(all)
}

fn set(set: &ParameterSet, weights: &Weights) -> train::Result<()> {
    set.write::<Error>(Part::Weights, |parameter| {
        Ok(weights[parameter.name()].clone())
    })?;
    Ok(())
}

/// w(u+1) of stage s = w(u) - update(gradient of micro-batch u, where each stage has its w(u - (p-1-s))), clipped by the norm of
/// the stage's gradients. `stages` holds the stage of each parameter.
pub fn run(subject: &Subject, stages: &BTreeMap<String, usize>) -> Oracle {
    let num_stages = 1 + stages.values().max().copied().unwrap_or(0);
    let rows = subject.config.training.batch / UPDATES as usize;
    let alone = subject.on("x=1").with(|config| {
        config.parallel.schedule = Default::default();
        (config.training.batch, config.training.micro_batches) = (rows, 1);
    });
    let (subject, stages) = (subject.clone(), stages.clone());
    let late = move |update: u64, name: &str, stages: &BTreeMap<String, usize>| {
        let late = num_stages - 1 - stages[name];
        (update as usize).saturating_sub(late)
    };
    let mut results = ranks(1, move |world, device| {
        let context = alone.config.context(&world, &device)?;
        let trainer = alone.trainer(&context)?;
        let optimiser = alone.config.training.optimiser();
        let mut after = vec![weights(trainer.parameters())?];
        let mut losses = Vec::new();
        for step in 0..STEPS {
            let mut loss = 0.0;
            for part in 0..UPDATES {
                let update = step * UPDATES + part;
                let latest = after[update as usize].clone();
                let read = |name: &String| after[late(update, name, &stages)][name].clone();
                let read: Weights = latest.keys().map(|n| (n.clone(), read(n))).collect();
                set(trainer.parameters(), &read)?;
                let first = part as usize * rows;
                let data =
                    |own: Range<usize>| Ok(subject.rows(step, first + own.start..first + own.end));
                let computed = trainer.gradients(&trainer.batch_of(update, data)?)?;
                set(trainer.parameters(), &latest)?;
                loss += computed.loss.item()? / UPDATES as f64;
                let factors = (0..num_stages)
                    .map(|stage| {
                        let own = |name: &str| stages[name] == stage;
                        factor(trainer.parameters(), &alone, own)
                    })
                    .collect::<train::Result<Vec<Tensor>>>()?;
                let Computed { gradients, .. } = computed;
                // Pieces come by their factor, which here is the number of the stage.
                let rule = |parameter: &Parameter| UpdateRule {
                    rate_factor: stages[parameter.name()] as f64,
                    weight_decay: match parameter.decays() {
                        true => optimiser.weight_decay(),
                        false => 0.0,
                    },
                };
                gradients.update::<Error>(&factors[0], rule, |stage, _, pieces| {
                    Ok(optimiser.update(&UpdateCall {
                        device: &device,
                        pieces,
                        factor: &factors[stage as usize],
                        rate: optimiser.rate(step),
                        number: update + 1,
                    })?)
                })?;
                after.push(weights(trainer.parameters())?);
            }
            losses.push(loss);
        }
        Ok(Oracle { losses, after })
    });
    results.remove(0)
}

// That clips the gradients of one stage.
fn factor(
    set: &ParameterSet,
    subject: &Subject,
    is_own: impl Fn(&str) -> bool,
) -> train::Result<Tensor> {
    let mut own = Vec::new();
    set.tensors::<Error>(Part::Gradient, |parameter, gradient| {
        own.extend(is_own(parameter.name()).then_some(gradient));
        Ok(())
    })?;
    let own: Vec<&Tensor> = own.iter().collect();
    let device: &Device = own[0].device();
    let zeros = |count: usize| Tensor::zeros(device, DType::F64, &[count]);
    let by_nodes = subject.config.settings().reproducible == Reproducible::Grid;
    assert!(by_nodes, "sums in the order of the grid have no oracle");
    let (largest, sums) = (zeros(1)?, zeros(3)?);
    optimiser::largest(&own, &largest)?;
    optimiser::exact_squares(&own, &largest, &sums)?;
    let sum = optimiser::exact_total(&largest, &sums)?;
    let max_norm = Some(subject.config.training.clip_norm);
    Ok(optimiser::clip_scale(&sum, max_norm, 1.0)?)
}
