//! Where the text of a run comes from.

use crate::{
    failure::{Failure, Outcome},
    numbers::{counted, figures, grouped},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use train::{
    Config,
    batches::Batches,
    config::ObjectiveKind,
    data::{MixtureShare, Packed, PairOptions, ReadOptions, RunData, Settings, Source, Tokenizer},
};

/// A few of this program's own sources, for runs outside any repository.
const OWN_SOURCES: [&str; 9] = [
    include_str!("overrides.rs"),
    include_str!("sets.rs"),
    include_str!("report.rs"),
    include_str!("progress.rs"),
    include_str!("explain.rs"),
    include_str!("commands/train.rs"),
    include_str!("commands/checkpoint.rs"),
    include_str!("commands/bench/step.rs"),
    include_str!("commands/bench/collectives.rs"),
];

/// The data of a run, open.
#[derive(Clone)]
pub(crate) struct Opened {
    /// The batches, shared by all ranks.
    pub(crate) data: Arc<dyn Batches>,
    /// Numbers of training and validation tokens, if the data is text.
    pub(crate) num_tokens: Option<[usize; 2]>,
    /// How text becomes tokens, if the data is text.
    pub(crate) tokenizer: Option<Tokenizer>,
    /// The source of the data, for people.
    pub(crate) name: String,
    /// What the run has of each source of a mixture, for people.
    pub(crate) mixture: Vec<String>,
}

/// Where the data of a run is.
#[derive(Debug, PartialEq)]
pub(crate) enum Origin {
    /// In one place.
    One(Source),
    /// In several, with their weights.
    Mixture(Vec<(Source, f64)>),
}

impl Opened {
    /// The name of what turns text into tokens, if the data is text.
    pub(crate) fn tokenizer_name(&self) -> Option<String> {
        let tokenizer = self.tokenizer.as_ref();
        tokenizer.map(|tokenizer| tokenizer.name().to_owned())
    }
}

/// Decides where the data comes from, and records the decision in `config`, so that a resumed run finds the
/// same data.
///
/// Without a path, the data is the Rust sources of the repository around `here`, or those built into the
/// program. A resumed run whose configuration has no path began with the built-in ones.
pub(crate) fn source(config: &mut Config, resumed: bool, here: &Path) -> Outcome<Origin> {
    let data = &mut config.data;
    for (key, path) in [
        ("validation_path", &mut data.validation_path),
        ("chat_template", &mut data.chat_template),
        ("path", &mut data.path),
    ] {
        let Some(path) = path else { continue };
        *path = std::path::absolute(&path)
            .map_err(|error| Failure::usage(format!("data.{key}: {error}")))?;
    }
    for entry in &mut data.mixture {
        entry.path = std::path::absolute(&entry.path)
            .map_err(|error| Failure::usage(format!("data.mixture: {error}")))?;
    }
    for entry in &mut data.evaluations {
        entry.path = std::path::absolute(&entry.path)
            .map_err(|error| Failure::usage(format!("data.evaluations: {error}")))?;
    }
    if !data.mixture.is_empty() {
        let entries = config.data.mixture.iter();
        let sources = entries.map(|entry| Ok((detected(&entry.path, config)?, entry.weight)));
        return sources.collect::<Outcome<_>>().map(Origin::Mixture);
    }
    if let Some(path) = data.path.clone() {
        return detected(&path, config).map(Origin::One);
    }
    match repository(here).filter(|_| !resumed) {
        Some(root) => {
            (data.path, data.extensions) = (Some(root.clone()), vec!["rs".into()]);
            Ok(Origin::One(Source::Directory {
                path: root,
                extensions: vec!["rs".into()],
            }))
        }
        None => Ok(Origin::One(Source::Embedded(
            OWN_SOURCES.concat().into_bytes(),
        ))),
    }
}

fn detected(path: &Path, config: &Config) -> Outcome<Source> {
    let data = &config.data;
    let source = Source::detect(path, &data.extensions, data.token_type);
    Ok(source.map_err(train::Error::from)?)
}

/// Reads the data, and derives the model's vocabulary from it if the configuration leaves the vocabulary
/// open. A model that reads no text brings batches of its own.
pub(crate) fn open(config: &mut Config, origin: &Origin) -> Outcome<Opened> {
    let Some(text) = config.model.text() else {
        let family = config.model.family();
        let needs = || {
            Failure::usage(format!(
                "model.family: {family} reads no text and brings no batches"
            ))
        };
        return Ok(Opened {
            data: config.model.batches().ok_or_else(needs)?,
            num_tokens: None,
            tokenizer: None,
            name: format!("batches of the family {family}"),
            mixture: Vec::new(),
        });
    };
    let settings = Settings {
        context: text.context,
        validation_fraction: config.data.validation_fraction,
        order: config.data.order,
        seed: config.seed,
        global_batch: config.training.batch,
        validation_batches: config.training.validation_batches,
    };
    let evaluations = config.data.evaluations.iter();
    let evaluations =
        evaluations.map(|entry| Ok((entry.name.clone(), detected(&entry.path, config)?)));
    let options = ReadOptions {
        evaluations: evaluations.collect::<Outcome<_>>()?,
        tokenizer: config.data.tokenizer.clone(),
        chat_template: config.data.chat_template.clone(),
        loss_on: config.data.loss_on,
        pairs: (config.training.objective == ObjectiveKind::Dpo).then_some(PairOptions {
            label_smoothing: config.training.dpo_label_smoothing,
        }),
    };
    let other = config.data.validation_path.as_deref();
    let other = other.map(|path| detected(path, config)).transpose()?;
    let opened = match origin {
        Origin::One(source) => RunData::new(source, other.as_ref(), &options, &settings),
        Origin::Mixture(sources) => RunData::mixture(sources, other.as_ref(), &options, &settings),
    };
    let opened = opened.map_err(train::Error::from)?;
    if opened.packed.is_some() && !config.model.separates_samples() {
        let (family, path) = (config.model.family(), name(origin));
        return Err(Failure::usage(format!(
            "model.family: in {family}, samples in one row see each other; {path} needs a family that keeps them apart"
        )));
    }
    fit_vocabulary(config, text.vocabulary, opened.tokenizer.vocabulary_size())?;
    let packed = opened
        .packed
        .map_or(String::new(), |[training, validation]| {
            let noun = match options.pairs {
                Some(_) => "pair",
                None => "sample",
            };
            format!(
                " ({}; to validate {})",
                in_rows(training, (noun, text.context)),
                in_rows(validation, (noun, text.context))
            )
        });
    Ok(Opened {
        num_tokens: Some(opened.num_tokens),
        data: opened.batches,
        tokenizer: Some(opened.tokenizer),
        name: name(origin) + &packed,
        mixture: opened.mixture.map_or(Vec::new(), |mixture| {
            mixed(&mixture.shares(config.training.steps))
        }),
    })
}

// What became of the samples of a part.
fn in_rows(packed: Packed, (noun, context): (&str, usize)) -> String {
    let filled = 1.0 - packed.padding as f64 / (packed.rows * context) as f64;
    let mut text = format!(
        "{} in {} of {context}, {:.0} % filled",
        counted(packed.samples, noun),
        counted(packed.rows, "row"),
        100.0 * filled
    );
    if packed.cut > 0 {
        text += &format!(", {} cut at a row's end", grouped(packed.cut as u64));
    }
    if packed.dropped > 0 {
        text += &format!(
            ", {} left out without an answer in a row",
            grouped(packed.dropped as u64)
        );
    }
    text
}

fn fit_vocabulary(config: &mut Config, found: usize, needed: usize) -> Outcome {
    match found {
        0 => {
            let sized = config.model.with_vocabulary(needed);
            config.model = sized.unwrap_or_else(|| config.model.clone());
        }
        size if size < needed => {
            return Err(Failure::Usage(format!(
                "model.vocabulary: found {size}, needs at least {needed}, the tokenizer's"
            )));
        }
        _ => {}
    }
    Ok(())
}

// What the run has of each source.
fn mixed(shares: &[MixtureShare]) -> Vec<String> {
    let line = |share: &MixtureShare| {
        format!(
            "{} % {}: {} tokens, {} epochs",
            figures(100.0 * share.share),
            share.name,
            grouped(share.num_tokens as u64),
            figures(share.epochs)
        )
    };
    shares.iter().map(line).collect()
}

fn name(origin: &Origin) -> String {
    let source = match origin {
        Origin::One(source) => source,
        Origin::Mixture(sources) => {
            return format!("mixture of {}", counted(sources.len(), "source"));
        }
    };
    match source {
        Source::Embedded(text) => {
            format!(
                "{} of this program's own sources, built in (no --data, no repository here)",
                hal::error::Bytes(text.len())
            )
        }
        Source::Directory { path, extensions } => {
            format!("{} ({} files)", path.display(), extensions.join(", "))
        }
        other => other.name(),
    }
}

// The innermost folder from `here` upwards that looks like this project: a workspace with a folder of crates.
fn repository(here: &Path) -> Option<PathBuf> {
    let is_root =
        |folder: &&Path| folder.join("Cargo.toml").is_file() && folder.join("crates").is_dir();
    here.ancestors().find(is_root).map(Path::to_path_buf)
}

#[cfg(test)]
mod tests;
