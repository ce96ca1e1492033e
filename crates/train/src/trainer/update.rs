//! How a step's gradients update the weights: what the optimiser asks for, in its order.

use super::Trainer;
use crate::{
    Result,
    optimiser::{RuleMatmul, UpdateCall},
};
use parallel::{
    Parameter,
    data::{Gradients, UpdatePlace, UpdateRule},
};
use tensor::Tensor;

impl Trainer {
    // Whether the host may update weights while the device runs backward: no norm decides the factor of gradients. If they are not
    // finite, the step ends the run, and with it the weights.
    pub(super) fn updates_before_norm(&self) -> bool {
        let on_host = self.options.places.update == UpdatePlace::Host;
        on_host && self.max_norm().is_none() && !self.loss_scale.adapts()
    }

    // To which gradients are clipped, if they are.
    pub(super) fn max_norm(&self) -> Option<f64> {
        (self.options.clip_norm > 0.0).then_some(self.options.clip_norm)
    }

    // How often a step updates the weights.
    pub(super) fn num_updates_of_step(&self) -> usize {
        self.pipeline.schedule().num_updates()
    }

    // The update of that number, from 1, in this step.
    pub(super) fn update(
        &self,
        gradients: Gradients,
        factor: &Tensor,
        (step, number): (u64, u64),
    ) -> Result<()> {
        let rule = |parameter: &Parameter| self.rule_of(parameter);
        if let Some(matrices) = self.optimiser.matrices() {
            let rate = matrices.rate(step);
            gradients.matrices(factor, rule, |rate_factor, factor, pieces| {
                matrices.prepare(&self.call((factor, number), rate * rate_factor, pieces))
            })?;
            gradients.transform(
                |rows, columns| {
                    let matmuls = matrices.matmuls(rows, columns);
                    matmuls.iter().map(RuleMatmul::flop).sum()
                },
                |matrix| matrices.transform(matrix, self.dtype()),
            )?;
            gradients.matrices(factor, rule, |rate_factor, factor, pieces| {
                matrices.apply(&self.call((factor, number), rate * rate_factor, pieces))
            })?;
        }
        let rate = self.optimiser.rate(step);
        if let Some(codes) = self.optimiser.codes() {
            gradients.update_coded(
                rule,
                |rate_factor, pieces| {
                    codes.scales(&self.call((factor, number), rate * rate_factor, pieces))
                },
                |rate_factor, pieces| {
                    codes.update(&self.call((factor, number), rate * rate_factor, pieces))
                },
            )?;
        }
        if let Some(factors) = self.optimiser.factors() {
            let factoring = factors.factoring(number);
            gradients.update_factored(factoring, factor, rule, |rate_factor, clip, pieces| {
                factors.apply(&self.call((clip, number), rate * rate_factor, pieces))
            })?;
        }
        gradients.update(factor, rule, |rate_factor, factor, pieces| {
            Ok(self
                .optimiser
                .update(&self.call((factor, number), rate * rate_factor, pieces))?)
        })
    }

    // The update of elements alone, before the norm is known; the sum of the gradients' squares.
    pub(super) fn update_by(
        &self,
        gradients: Gradients,
        factor: f64,
        (step, number): (u64, u64),
    ) -> Result<Tensor> {
        let rule = |parameter: &Parameter| self.rule_of(parameter);
        let rate = self.optimiser.rate(step);
        gradients.update_by(factor, rule, |rate_factor, factor, pieces| {
            Ok(self
                .optimiser
                .update(&self.call((factor, number), rate * rate_factor, pieces))?)
        })
    }

    fn rule_of(&self, parameter: &Parameter) -> UpdateRule {
        let groups = &self.options.groups;
        let group = parameter.group().and_then(|name| groups.get(name));
        let group = group.copied().unwrap_or_default();
        let decay = || self.optimiser.weight_decay();
        UpdateRule {
            rate_factor: group.rate_factor,
            weight_decay: match parameter.decays() {
                true => group.weight_decay.unwrap_or_else(decay),
                false => 0.0,
            },
        }
    }

    fn call<'a, P>(
        &'a self,
        (factor, number): (&'a Tensor, u64),
        rate: f64,
        pieces: &'a [P],
    ) -> UpdateCall<'a, P> {
        UpdateCall {
            device: factor.device(),
            pieces,
            factor,
            rate,
            number,
        }
    }
}
