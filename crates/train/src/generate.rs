//! Text from a checkpoint, on any grid.
//!
//! Each token runs the full window through the model again; keys and values are not kept between tokens.

use crate::{
    Config, Error, Families, Mismatch, Result,
    architecture::Text,
    checkpoint::Reader,
    data::Tokenizer,
    trainer::{check_names, fill, stored},
};
use bootstrap::World;
use grid::Axis;
use hal::random::Key;
use nn::Builder;
use parallel::{
    Batch, Context, MicroBatch, Pipeline,
    data::{Part, SetOptions},
    layers::whole_logits,
    pipeline::{Options, ScheduleKind, SchedulePlan},
    work::dry_context,
};
use std::rc::Rc;
use tensor::{Device, Tensor};

/// What to generate.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The text to continue.
    pub prompt: String,
    /// Number of tokens to add.
    pub tokens: usize,
    /// Values above 1 flatten the distribution over tokens, values below 1 sharpen it; 0 takes the most likely
    /// token.
    pub temperature: f64,
    /// Only the `top_k` most likely tokens are considered; 0 considers all.
    pub top_k: usize,
    /// Seed of the random draws.
    pub seed: u64,
}

impl Default for Request {
    fn default() -> Self {
        Request {
            prompt: "\n".into(),
            tokens: 256,
            temperature: 0.8,
            top_k: 40,
            seed: 1,
        }
    }
}

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
    config.model.build(&builder)?;
    let weights = [("weights/".into(), Part::Weights)];
    let options = SetOptions::inference(config.training.precision.dtype());
    check_names(&builder.parameters(), reader, (&options, &weights))?;
    Ok(config)
}

/// Continues the prompt, on this rank of the configuration's grid; every rank returns the same text.
///
/// # Errors
/// [`Error::Setting`] for a model that reads no text, and for a prompt without tokens; [`Error::Data`] for a prompt
/// that the tokenizer cannot encode; [`Error::Mismatch`] if the weights are not those of the model;
/// [`Error::Checkpoint`] if they cannot be read; [`Error::Parallel`] from layers and collectives; those of
/// [`Config::ordered_on`].
pub fn generate(
    world: &World,
    device: &Device,
    config: &Config,
    tokenizer: &Tokenizer,
    reader: &Reader,
    request: &Request,
) -> Result<String> {
    let context = Context::new(
        world.clone(),
        config.ordered_on(world)?,
        device.clone(),
        config.settings(),
    )?;
    let text = config.model.text().ok_or_else(|| {
        let family = config.model.family();
        Error::setting(
            "generate",
            format_args!("family {family}, which reads no text"),
            "one that does",
        )
    })?;
    let pipeline = inference(&context, config)?;
    let parts = [("weights/".to_owned(), Part::Weights)];
    let options = pipeline.parameters().options();
    check_names(pipeline.declared(), reader, (options, &parts))?;
    fill(world, reader, pipeline.parameters(), &parts)?;
    let mut ids = tokenizer.encode(&request.prompt)?;
    if ids.is_empty() {
        return Err(Error::setting("prompt", "no token", "at least 1"));
    }
    for index in 0..request.tokens {
        let logits = next_logits(&pipeline, &ids, text)?;
        ids.push(pick(&logits, request, index as u64));
    }
    Ok(tokenizer.decode(&ids))
}

fn inference(context: &Context, config: &Config) -> Result<Pipeline> {
    let builder = Builder::new(context);
    let model = config.model.build(&builder)?;
    let stages = context.degree(Axis::Pipeline);
    let schedule = SchedulePlan::new(ScheduleKind::default(), stages, 1)?;
    let options = Options {
        set: SetOptions::inference(config.training.precision.dtype()),
        recompute: false,
    };
    Ok(Pipeline::new(
        context,
        Rc::new(model),
        builder.parameters(),
        schedule,
        options,
    )?)
}

// The logits after the last token, on every rank: the last stage sends them to the others through the host.
fn next_logits(pipeline: &Pipeline, ids: &[u32], text: Text) -> Result<Vec<f64>> {
    let context = pipeline.context();
    let window = &ids[ids.len().saturating_sub(text.context)..];
    let inputs = Tensor::from_slice(context.device(), &[1, window.len()], window)?;
    let rows = MicroBatch::new(0..1).with("inputs", inputs)?;
    let batch = Batch {
        step: 0,
        num_rows: 1,
        micro_batches: vec![rows],
    };
    let outputs = pipeline.evaluate(&batch, |pass, _, mut wires| {
        let logits = wires.take("logits")?;
        let all = logits.tensor()?;
        let flat = all.reshape(&[window.len(), all.columns()])?;
        let last = tensor::Var::constant(flat.rows(window.len() - 1, 1)?);
        let last = parallel::DTensor::new(pass, last, logits.features(), logits.cut())?;
        whole_logits(&last, text.vocabulary)
    })?;
    from_last_stage(context, outputs.into_iter().next().unwrap_or_default())
}

fn from_last_stage(context: &Context, logits: Vec<f64>) -> Result<Vec<f64>> {
    let stages = context.degree(Axis::Pipeline);
    if stages == 1 {
        return Ok(logits);
    }
    let bytes: Vec<u8> = logits
        .iter()
        .flat_map(|logit| logit.to_le_bytes())
        .collect();
    let told = context
        .exchange("logits", &[Axis::Pipeline])?
        .broadcast(stages - 1, &bytes)?;
    Ok(told
        .chunks_exact(8)
        .map(|bytes| f64::from_le_bytes(bytes.try_into().expect("chunks of 8")))
        .collect())
}

fn pick(logits: &[f64], request: &Request, index: u64) -> u32 {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    if request.temperature <= 0.0 {
        return order[0] as u32;
    }
    if request.top_k > 0 {
        order.truncate(request.top_k);
    }
    let best = logits[order[0]];
    let weights: Vec<f64> = order
        .iter()
        .map(|&id| ((logits[id] - best) / request.temperature).exp())
        .collect();
    let mut left = f64::from(Key::new(request.seed, "generate", 0).uniform(index))
        * weights.iter().sum::<f64>();
    for (id, weight) in order.iter().zip(&weights) {
        left -= weight;
        if left < 0.0 {
            return *id as u32;
        }
    }
    order[order.len() - 1] as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperature_0_takes_the_likeliest_and_top_1_leaves_no_choice() {
        let logits = [0.1, 2.0, -1.0, 1.9];
        let greedy = Request {
            temperature: 0.0,
            ..Request::default()
        };
        assert_eq!(pick(&logits, &greedy, 0), 1);
        let top = Request {
            top_k: 1,
            temperature: 5.0,
            ..Request::default()
        };
        assert!((0..20).all(|index| pick(&logits, &top, index) == 1));
    }

    #[test]
    fn draws_follow_the_probabilities() {
        let logits = [0.0, (3.0f64).ln()];
        let request = Request {
            temperature: 1.0,
            top_k: 0,
            ..Request::default()
        };
        let ones = (0..4000)
            .filter(|&index| pick(&logits, &request, index) == 1)
            .count();
        assert!(
            (2880..3120).contains(&ones),
            "{ones} of 4000, expected 3000"
        );
    }
}
