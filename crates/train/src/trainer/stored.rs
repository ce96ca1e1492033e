//! What a checkpoint holds besides tensors.

use super::{Trainer, scale::LossScale};
use crate::{
    Config, Error, Mismatch, Result,
    checkpoint::{Reader, Sections},
    data::Tokenizer,
    run::BestValidation,
};
use grid::Grid;
use parallel::data::{Part, SetOptions};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a program stores in a checkpoint beside the trainer's own data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attached {
    /// The model's configuration.
    pub model: Value,
    /// The whole configuration of the run.
    pub config: Value,
    /// How text becomes tokens.
    pub tokenizer: Value,
    /// [`Batches::fingerprint`](crate::batches::Batches::fingerprint) of the data.
    pub data: Option<String>,
    /// The loss on data that no step trains on, if it was computed after the step of the checkpoint.
    pub validation_loss: Option<f64>,
    /// The lowest of these losses so far, in a run that ends when they no longer fall.
    pub best: Option<BestValidation>,
}

/// The trainer's section of a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stored {
    #[serde(default)]
    pub(crate) config: Value,
    #[serde(default)]
    pub(crate) tokenizer: Value,
    #[serde(default)]
    pub(crate) data: Option<String>,
    /// The number of updates of the optimiser so far.
    pub(super) num_updates: u64,
    pub(crate) loss_scale: LossScale,
    #[serde(default)]
    pub(crate) optimiser: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) best: Option<BestValidation>,
}

/// Whether a name is that of weights of an earlier update.
pub(super) fn is_previous(name: &str) -> bool {
    let rest = name.strip_prefix("previous");
    let number = |rest: &str| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit())
            .starts_with('/')
    };
    rest.is_some_and(number)
}

/// The prefix of weights that lie this many updates behind the latest ones, at least 1, if the schedule delays gradients.
pub(super) fn previous_prefix(updates: usize) -> String {
    match updates {
        1 => "previous/".to_owned(),
        _ => format!("previous{updates}/"),
    }
}

/// The parts that are stored, each under its own prefix. A matrix may have fewer states than other parameters.
pub(super) fn parts(options: &SetOptions) -> Vec<(String, Part)> {
    let num_states = options.num_states.max(options.matrix_states.unwrap_or(0));
    let states = (0..num_states).map(|index| (format!("state{index}/"), Part::State(index)));
    let weights = [("weights/".to_owned(), Part::Weights)];
    let previous = 1..options.versions;
    let previous = previous.map(|updates| (previous_prefix(updates), Part::Previous(updates)));
    let coded = 0..options.num_states * usize::from(options.codes);
    let scales = coded.map(|index| (format!("state{index}.scales/"), Part::Scales(index)));
    let means = [
        ("state.rows/", Part::RowMeans),
        ("state.columns/", Part::ColumnMeans),
    ];
    let means = means.into_iter().filter(|_| options.factors);
    let means = means.map(|(prefix, part)| (prefix.to_owned(), part));
    let states = states.chain(scales).chain(means);
    weights.into_iter().chain(previous).chain(states).collect()
}

/// The contents of a checkpoint besides tensors.
///
/// # Errors
/// [`Error::Mismatch`] if another program wrote it.
pub(crate) fn stored(reader: &Reader) -> Result<Stored> {
    let value = reader.sections().trainer.clone();
    serde_json::from_value(value).map_err(|error| {
        let (what, reason) = ("record of a trainer", error.to_string());
        Error::mismatch(reader.path(), Mismatch::Foreign { what, reason })
    })
}

impl Attached {
    /// What a run of this configuration stores, but for its data.
    ///
    /// # Errors
    /// [`Error::Setting`] for values that JSON cannot hold.
    pub(crate) fn of(config: &Config, tokenizer: Option<&Tokenizer>) -> Result<Attached> {
        let refuse = |error: serde_json::Error| {
            Error::setting("checkpoint", error, "values that JSON can hold")
        };
        Ok(Attached {
            model: serde_json::to_value(&config.model).map_err(refuse)?,
            config: serde_json::to_value(config).map_err(refuse)?,
            tokenizer: serde_json::to_value(tokenizer).map_err(refuse)?,
            ..Attached::default()
        })
    }
}

/// The sections of a checkpoint of weights that no step has changed, as one rank would write it.
pub(crate) fn first_sections(attached: &Attached) -> Sections {
    let own = Stored {
        config: attached.config.clone(),
        tokenizer: attached.tokenizer.clone(),
        data: attached.data.clone(),
        num_updates: 0,
        loss_scale: LossScale::none(),
        optimiser: None,
        best: None,
    };
    assembled(&own, attached, &Grid::serial())
}

pub(super) fn sections(trainer: &Trainer, attached: &Attached) -> Sections {
    let own = Stored {
        config: attached.config.clone(),
        tokenizer: attached.tokenizer.clone(),
        data: attached.data.clone(),
        num_updates: trainer.num_updates,
        loss_scale: trainer.loss_scale,
        optimiser: Some(trainer.optimiser.name().to_owned()),
        best: attached.best,
    };
    Sections {
        step_digest: trainer.digest().map(|digest| digest.digest.clone()),
        ..assembled(&own, attached, trainer.context.grid())
    }
}

fn assembled(own: &Stored, attached: &Attached, grid: &Grid) -> Sections {
    let json = |value: serde_json::Result<Value>| value.expect("plain values become JSON");
    Sections {
        model: attached.model.clone(),
        trainer: json(serde_json::to_value(own)),
        tokenizer: attached.tokenizer.clone(),
        grid: json(serde_json::to_value(grid)),
        validation_loss: attached.validation_loss,
        step_digest: None,
    }
}
