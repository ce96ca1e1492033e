//! Direct preference optimisation of any model that writes `logits` and keeps the samples of a row apart.
//!
//! [`PreferenceModel`] gives a model the loss of pairs ([`Preferences`](crate::data::Preferences)), and [`PreferenceMetrics`] is what a
//! step and a validation report of them. The reference model is the one with which training begins: its log-probabilities are
//! computed once ([`Trainer::reference`](crate::Trainer::reference)) and belong to the data from then on, so no second
//! model is ever in memory.

mod metrics;
mod model;

pub use metrics::PreferenceMetrics;
pub use model::PreferenceModel;
pub(crate) use {
    metrics::{PairSums, thirds},
    model::blank_pairs,
};
