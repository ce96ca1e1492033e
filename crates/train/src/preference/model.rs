//! A model with the objective of pairs.

use crate::batches::{Rows, Values};
use parallel::{
    Input, Model, Result, Wires,
    layers::{Loss, PairColumns, preference_loss},
    model::Route,
};
use std::ops::Range;

/// The model that it wraps, with the mean loss of direct preference optimisation as its objective.
#[derive(Debug)]
pub struct PreferenceModel<M> {
    model: M,
    vocabulary: usize,
    beta: f64,
}

impl<M: Model> PreferenceModel<M> {
    /// A model whose objective takes one wire, `logits`, over a vocabulary of this size; `beta` is the weight of the
    /// log-probabilities' distance from the reference model.
    pub fn new(model: M, vocabulary: usize, beta: f64) -> PreferenceModel<M> {
        PreferenceModel {
            model,
            vocabulary,
            beta,
        }
    }
}

/// Rows of `rows`, a model's own without values, with the columns of pairs: one in each row.
pub(crate) fn blank_pairs(rows: Rows, num_rows: usize, context: usize) -> Rows {
    let weights = |count| Values::Weights(vec![0.0; count]);
    rows.with("sequences", &[context], vec![0u32; num_rows * context])
        .with("labels", &[1, 2], weights(2 * num_rows))
        .with("reference", &[1, 2], weights(2 * num_rows))
        .with("loss_weight", &[], weights(num_rows))
}

impl<M: Model> Model for PreferenceModel<M> {
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

    fn forward(&self, segment: usize, input: &Input<'_>, wires: Wires) -> Result<Wires> {
        self.model.forward(segment, input, wires)
    }

    fn objective(&self, input: &Input<'_>, mut wires: Wires) -> Result<Loss> {
        let columns = PairColumns {
            targets: input.tensor("targets")?,
            sequences: input.tensor("sequences")?,
            reference: input.tensor("reference")?,
            labels: input.tensor("labels")?,
        };
        let loss = preference_loss(wires.take("logits")?, columns, self.vocabulary, self.beta)?;
        loss.scale_by(input.tensor("loss_weight")?)
    }

    fn is_incremental(&self) -> bool {
        self.model.is_incremental()
    }

    fn recomputed(&self) -> Vec<Range<usize>> {
        self.model.recomputed()
    }
}
