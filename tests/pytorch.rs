//! An external reference: PyTorch's logits, losses and gradients for the same weights, from tests/fixtures/make.py.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use families::{GptConfig, GptFamily};
use grid::{Degrees, IndexBox};
use parallel::{
    Batch, Context, MicroBatch, Pipeline,
    data::{Part, SetOptions},
    memory::ActivationMemory,
    pipeline::{Built, Options, ScheduleKind, SchedulePlan},
};
use tensor::Tensor;
use testkit::ranks;
use train::{Config, checkpoint::PlainFile, config::Precision, optimiser::RateSchedule};

type Tensors = BTreeMap<String, Vec<f64>>;

/// A reference's tensors under our names. PyTorch stores matrices of linear layers as out x in (except in GPT-2's
/// own layers), and GPT-2 keeps queries, keys and values in one matrix.
fn ours(file: &PlainFile, prefix: &str, family: GptFamily) -> Tensors {
    let mut tensors = Tensors::new();
    for name in file.names() {
        let Some(theirs) = name.strip_prefix(prefix) else {
            continue;
        };
        let shape = file.shape(&name).unwrap().to_vec();
        let numbers = file
            .read_f64(&name, &shape, &IndexBox::full(&shape))
            .unwrap();
        match family {
            GptFamily::Gpt2 => gpt2(&mut tensors, theirs, &shape, numbers),
            GptFamily::Llama => llama(&mut tensors, theirs, &shape, numbers),
        }
    }
    tensors
}

fn gpt2(tensors: &mut Tensors, name: &str, shape: &[usize], numbers: Vec<f64>) {
    let name = name.strip_prefix("transformer.").unwrap_or(name);
    let name = name
        .replace("h.", "blocks.")
        .replace("ln_1.", "norm1.")
        .replace("ln_2.", "norm2.");
    let name = name
        .replace("ln_f.", "final_norm.")
        .replace("mlp.c_fc", "mlp.up")
        .replace("mlp.c_proj", "mlp.down");
    let name = name.replace("attn.c_proj", "attention.output");
    let name = match name.as_str() {
        "wte.weight" => "embedding.token".into(),
        "wpe.weight" => "embedding.position".into(),
        other if other.contains("norm") => other.replace("weight", "gain"),
        other => other.into(),
    };
    let Some((block, part)) = name.split_once(".attn.c_attn.") else {
        tensors.insert(name, numbers);
        return;
    };
    let columns = shape[shape.len() - 1];
    for (index, which) in ["query", "key", "value"].into_iter().enumerate() {
        let third = index * columns / 3..(index + 1) * columns / 3;
        let own = numbers
            .chunks(columns)
            .flat_map(|row| row[third.clone()].to_vec())
            .collect();
        tensors.insert(format!("{block}.attention.{which}.{part}"), own);
    }
}

fn llama(tensors: &mut Tensors, name: &str, shape: &[usize], numbers: Vec<f64>) {
    let name = name.strip_prefix("model.").unwrap_or(name);
    let name = name
        .replace("layers.", "blocks.")
        .replace("input_layernorm.weight", "norm1.gain");
    let name = name
        .replace("post_attention_layernorm.weight", "norm2.gain")
        .replace("self_attn.", "attention.");
    let name = name
        .replace("q_proj", "query")
        .replace("k_proj", "key")
        .replace("v_proj", "value");
    let name = name
        .replace("o_proj", "output")
        .replace("gate_proj", "gate")
        .replace("up_proj", "up");
    match name.replace("down_proj", "down").as_str() {
        "embed_tokens.weight" => tensors.insert("embedding.token".into(), numbers),
        "norm.weight" => tensors.insert("final_norm.gain".into(), numbers),
        "lm_head.weight" => tensors.insert("head.weight".into(), numbers),
        other if shape.len() == 2 => tensors.insert(other.into(), transposed(shape, &numbers)),
        other => tensors.insert(other.into(), numbers),
    };
}

fn transposed(shape: &[usize], numbers: &[f64]) -> Vec<f64> {
    (0..shape[1])
        .flat_map(|column| (0..shape[0]).map(move |row| numbers[row * shape[1] + column]))
        .collect()
}

fn settings(family: GptFamily, precision: Precision) -> Config {
    let model = GptConfig {
        family,
        layers: 2,
        hidden: 32,
        heads: 4,
        kv_heads: if family == GptFamily::Llama { 2 } else { 4 },
        mlp_hidden: if family == GptFamily::Llama { 48 } else { 128 },
        context: 24,
        vocabulary: 67,
        tied_head: family == GptFamily::Gpt2,
        ..GptConfig::default()
    };
    let mut config = Config::new(model.into());
    config.training.batch = 3;
    config.training.micro_batches = 1;
    config.training.precision = precision;
    config.training.learning_rate = 1e-2;
    config.training.rate_schedule = RateSchedule::Constant;
    config.training.warmup_steps = 0;
    config.training.beta2 = 0.95;
    config.training.clip_norm = 0.0;
    config
}

struct Found {
    losses: Vec<f64>,
    gradients: Tensors,
}

/// Losses before and after three updates, and the first gradients, with the reference's weights.
fn run(config: Config, weights: Tensors, ids: Vec<u32>, targets: Vec<u32>) -> Found {
    let grid = config.grid().unwrap();
    let shared = Arc::new((config, weights, ids, targets));
    let results = ranks(grid.world_size(), move |world, device| {
        let (config, weights, ids, targets) = &*shared;
        let context = Context::new(world, grid, device, config.settings())?;
        let mut trainer = config.trainer(&context)?;
        trainer
            .parameters()
            .write::<train::Error>(Part::Weights, |parameter| {
                let whole = &weights[parameter.name()];
                let runs = parameter.index().contiguous_runs(parameter.global_shape());
                Ok(runs
                    .flat_map(|(start, len)| whole[start..start + len].to_vec())
                    .collect())
            })?;
        let tokens = |range: std::ops::Range<usize>| {
            let part = range.start * 16..range.end * 16;
            let (inputs, targets) = (ids[part.clone()].to_vec(), targets[part].to_vec());
            Ok(train::data::Batch { inputs, targets }.into_rows(16))
        };
        let batch = trainer.batch_of(0, tokens)?;
        trainer.gradients(&batch)?;
        let mut shards = Vec::new();
        trainer
            .parameters()
            .read::<train::Error>(Part::Gradient, |parameter, numbers| {
                let shape = parameter.global_shape().to_vec();
                shards.push((
                    parameter.name().to_owned(),
                    shape,
                    parameter.index().clone(),
                    numbers,
                ));
                Ok(())
            })?;
        let mut losses = Vec::new();
        for _ in 0..4 {
            losses.push(trainer.step(&batch)?.loss);
        }
        Ok((losses, shards))
    });
    let mut gradients = Tensors::new();
    for (name, shape, index, numbers) in results.iter().flat_map(|(_, shards)| shards) {
        let whole = gradients
            .entry(name.clone())
            .or_insert_with(|| vec![0.0; shape.iter().product()]);
        let mut rest = &numbers[..];
        for (start, len) in index.contiguous_runs(shape) {
            whole[start..start + len].copy_from_slice(&rest[..len]);
            rest = &rest[len..];
        }
    }
    Found {
        losses: results[0].0.clone(),
        gradients,
    }
}

/// The model's logits for all tokens, on one rank.
fn logits(config: Config, weights: Tensors, ids: Vec<u32>) -> Vec<f64> {
    let shared = Arc::new((config, weights, ids));
    let results = ranks(1, move |world, device| {
        let (config, weights, ids) = &*shared;
        let dtype = config.training.precision.dtype();
        let context = Context::new(
            world,
            grid::Grid::serial(),
            device.clone(),
            config.settings(),
        )?;
        let build = || -> parallel::Result<Built> {
            let builder = nn::Builder::new(&context);
            let model = std::rc::Rc::new(config.model.build(&builder)?);
            Ok((model, builder.parameters()))
        };
        let options = Options {
            set: SetOptions::inference(dtype),
            memory: ActivationMemory::default(),
            depths: None,
        };
        let schedule = SchedulePlan::new(ScheduleKind::default(), 1, 1)?;
        let pipeline = Pipeline::new(&context, build, schedule, options)?;
        pipeline
            .parameters()
            .write::<train::Error>(Part::Weights, |parameter| {
                Ok(weights[parameter.name()].clone())
            })?;
        let inputs = Tensor::from_slice(&device, &[3, 16], ids)?;
        let batch = Batch {
            step: 0,
            num_rows: 3,
            micro_batches: vec![MicroBatch::new(0..3).with("inputs", inputs)?],
        };
        let logits = pipeline.evaluate(&batch, |_, _, mut wires| {
            wires.take("logits")?.tensor()?.to_f64()
        })?;
        Ok(logits.concat())
    });
    results[0].clone()
}

/// The reference's losses before and after each update, from the file's metadata.
fn losses(path: &Path) -> Vec<f64> {
    let bytes = std::fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    serde_json::from_str(header["__metadata__"]["losses"].as_str().unwrap()).unwrap()
}

fn check(name: &str, family: GptFamily) {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{name}.safetensors"));
    let file = PlainFile::open(&path).unwrap();
    let reference_losses = losses(&path);
    let (ids, targets) = (
        file.read_u32("ids").unwrap(),
        file.read_u32("targets").unwrap(),
    );
    let (weights, expected) = (
        ours(&file, "weights/", family),
        ours(&file, "gradients/", family),
    );
    let their_logits = file
        .read_f64("logits", &[3, 16, 67], &IndexBox::full(&[3, 16, 67]))
        .unwrap();
    for precision in [Precision::F64, Precision::F32] {
        let our_logits = logits(settings(family, precision), weights.clone(), ids.clone());
        assert_eq!(our_logits.len(), their_logits.len());
        let apart = our_logits
            .iter()
            .zip(&their_logits)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f64::max);
        assert!(
            apart < 1e-4,
            "{name}: logits differ by {apart:.1e} in {precision:?}"
        );
    }
    let largest = |tensor: &[f64]| {
        tensor
            .iter()
            .fold(0.0f64, |largest, x| largest.max(x.abs()))
    };
    for (precision, grid) in [
        (Precision::F64, Degrees::default()),
        (Precision::F32, Degrees::default()),
        (
            Precision::F32,
            Degrees {
                x: 2,
                y: 2,
                pipeline: 2,
                ..Degrees::default()
            },
        ),
        (
            Precision::F32,
            Degrees {
                x: 2,
                z: 3,
                ..Degrees::default()
            },
        ),
    ] {
        let mut config = settings(family, precision);
        config.parallel.grid = grid;
        let found = run(config, weights.clone(), ids.clone(), targets.clone());
        for (ours, theirs) in found.losses.iter().zip(&reference_losses) {
            assert!(
                (ours - theirs).abs() < 1e-4 * theirs.abs(),
                "{name} on {grid}: {:?}",
                found.losses
            );
        }
        assert_eq!(
            found.gradients.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>()
        );
        for (tensor, theirs) in &expected {
            let ours = &found.gradients[tensor];
            let apart = ours
                .iter()
                .zip(theirs)
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f64::max);
            // A key bias has only rounding as its gradient.
            let scale = largest(theirs).max(1e-2);
            assert!(
                apart <= 1e-4 * scale,
                "{name} on {grid}: gradient of {tensor} differs by {apart:.1e} of {scale:.1e}"
            );
        }
    }
}

#[test]
fn gpt2_gives_pytorchs_losses_and_gradients() {
    check("gpt2", GptFamily::Gpt2);
}

#[test]
fn llama_gives_pytorchs_losses_and_gradients() {
    check("llama", GptFamily::Llama);
}
