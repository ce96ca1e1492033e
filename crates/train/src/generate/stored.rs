//! A model that generates, from a checkpoint.

use crate::{
    Config, Error, Families, Mismatch, Result,
    architecture::Text,
    checkpoint::Reader,
    config::{FrozenWeights, TuningConfig},
    data::Tokenizer,
    foreign::Merged,
    trainer::{check_names, check_weights, fill, stored, write_weights},
};
use bootstrap::World;
use grid::Axis;
use nn::Builder;
use parallel::{
    Context, Model, Pipeline,
    data::{Part, SetOptions, StatePlaces},
    memory::ActivationMemory,
    pipeline::{Built, Options, ScheduleKind, SchedulePlan},
    work::dry_context,
};
use std::rc::Rc;
use tensor::Device;

/// The configuration and tokenizer stored in a checkpoint.
///
/// # Errors
/// As [`configured`]; [`Error::Mismatch`] when it holds no tokenizer that this program can read.
pub fn described(reader: &Reader, families: &Families) -> Result<(Config, Tokenizer)> {
    let (config, stored) = (configured(reader, families)?, stored(reader)?);
    let tokenizer = serde_json::from_value(stored.tokenizer).map_err(|error| {
        let (what, reason) = ("tokenizer", error.to_string());
        Error::mismatch(reader.path(), Mismatch::Foreign { what, reason })
    })?;
    Ok((config, tokenizer))
}

/// The configuration stored in a checkpoint.
///
/// Its model declares the tensors that the checkpoint holds, so that building it takes no more memory than they do.
///
/// # Errors
/// [`Error::Mismatch`] for a checkpoint of a program that stores none, for one that cannot be, and if its model has other
/// weights than the checkpoint.
pub fn configured(reader: &Reader, families: &Families) -> Result<Config> {
    let foreign = |reason: String| {
        let what = "configuration";
        Error::mismatch(reader.path(), Mismatch::Foreign { what, reason })
    };
    let config = stored(reader)?.config;
    if config.is_null() {
        return Err(foreign(String::new()));
    }
    let config = Config::from_json(config, families).and_then(|config| {
        config.model.check()?;
        config.training.check()?;
        config.parallel.check()?;
        Ok(config)
    });
    let config = config.map_err(|error| foreign(error.to_string()))?;
    let builder = Builder::new(&dry_context()?);
    config.build(&builder)?;
    let weights = [("weights/".into(), Part::Weights)];
    let options = SetOptions::inference(config.training.precision.dtype());
    check_names(&builder.parameters(), reader, (&options, &weights), &|_| 0)?;
    Ok(config)
}

/// How the model reads text.
///
/// # Errors
/// [`Error::Setting`] for a model that reads none.
pub fn text(config: &Config) -> Result<Text> {
    config.model.text().ok_or_else(|| {
        let family = config.model.family();
        Error::setting(
            "generate",
            format_args!("family {family}, which reads no text"),
            "one that does",
        )
    })
}

/// The model of the configuration with the weights of the checkpoint, on this rank of the configuration's grid. Collective.
///
/// Ranks of Data and Context, and of Z, which then gather each weight for every step, all have the same sequences. `stored_as` is how
/// weights of hidden linear layers are stored, but for adapters: by default, as the model was trained.
///
/// # Errors
/// [`Error::Mismatch`] if the weights are not those of the model; [`Error::Checkpoint`] if they cannot be read;
/// [`Error::Parallel`] from layers and collectives; those of [`Config::ordered_on`].
pub fn load(
    world: &World,
    device: &Device,
    config: &Config,
    reader: &Reader,
    stored_as: Option<FrozenWeights>,
) -> Result<Pipeline> {
    let order = config.ordered_on(world)?;
    let context = Context::new(world.clone(), order, device.clone(), config.settings())?;
    if config.tuning.adapter_decomposed {
        return merged(&context, config, reader, stored_as.unwrap_or_default());
    }
    let mut config = config.clone();
    match stored_as {
        // What is not trained has adapters beside it.
        Some(format) if config.tuning.adapter_rank > 0 => config.tuning.frozen_weights = format,
        Some(format) => config.tuning = TuningConfig::all_frozen(format),
        None => {}
    }
    let pipeline = inference(&context, &config)?;
    let parts = [("weights/".to_owned(), Part::Weights)];
    let options = pipeline.parameters().options();
    check_names(pipeline.declared(), reader, (options, &parts), &|_| 0)?;
    fill(world, reader, pipeline.parameters(), &parts)?;
    Ok(pipeline)
}

// The model without adapters, with their changes in its weights: the norms of a weight's columns would be computed for every token.
// Stored as codes, they are rounded once more.
fn merged(
    context: &Context,
    config: &Config,
    reader: &Reader,
    stored_as: FrozenWeights,
) -> Result<Pipeline> {
    let weights = Merged::new(reader, config);
    let plain = Config {
        tuning: TuningConfig::all_frozen(stored_as),
        ..config.clone()
    };
    let pipeline = inference(context, &plain)?;
    check_weights(pipeline.declared(), &weights, &[])?;
    write_weights(context.world(), pipeline.parameters(), &weights)?;
    Ok(pipeline)
}

/// The model of the configuration for inference, with its first weights, which are where the configuration says. Collective.
///
/// # Errors
/// [`Error::Parallel`] from layers and collectives.
pub fn inference(context: &Context, config: &Config) -> Result<Pipeline> {
    wrapped(context, config, |model| Rc::new(model))
}

/// As [`inference`], of the model inside another. Collective.
///
/// # Errors
/// As [`inference`].
pub(crate) fn wrapped(
    context: &Context,
    config: &Config,
    wrap: impl Fn(Box<dyn Model>) -> Rc<dyn Model>,
) -> Result<Pipeline> {
    let build = || -> parallel::Result<Built> {
        let builder = Builder::new(context);
        let model = wrap(config.build(&builder)?);
        Ok((model, builder.parameters()))
    };
    let stages = context.degree(Axis::Pipeline);
    let schedule = SchedulePlan::new(ScheduleKind::default(), stages, 1)?;
    let places = StatePlaces {
        weights: config.placement.of_state().weights,
        ..StatePlaces::DEVICE
    };
    let options = Options {
        set: SetOptions {
            places,
            ..SetOptions::inference(config.training.precision.dtype())
        },
        memory: ActivationMemory::default(),
        depths: None,
    };
    Ok(Pipeline::new(context, build, schedule, options)?)
}
