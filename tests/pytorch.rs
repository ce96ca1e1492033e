//! An external reference: PyTorch's logits, losses and gradients for models of the library transformers, from
//! tests/fixtures/make.py. Their folders are read as a user's are.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use grid::{Degrees, IndexBox, factorisations};
use parallel::{
    Batch, Context, MicroBatch, Pipeline,
    data::{Part, SetOptions},
    memory::ActivationMemory,
    pipeline::{Built, Options, ScheduleKind, SchedulePlan},
};
use tensor::Tensor;
use testkit::ranks;
use train::{
    Config, Error, checkpoint::PlainFile, config::Precision, foreign::ForeignModel,
    optimiser::RateSchedule, trainer::Weights,
};

type Tensors = BTreeMap<String, Vec<f64>>;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn foreign(name: &str) -> ForeignModel {
    ForeignModel::open(&folder(name), &families::families(), Ok::<_, Error>).unwrap()
}

/// The reference's gradients under our names.
fn gradients(file: &PlainFile, foreign: &ForeignModel) -> Tensors {
    let read = |parameter: String| {
        let view = &foreign.place(&parameter).unwrap().view;
        let numbers = view.read(
            |name, whole, index| file.read_f64(&format!("gradients/{name}"), whole, index),
            &IndexBox::full(&view.shape()),
        );
        (parameter, numbers.unwrap())
    };
    foreign.names().into_iter().map(read).collect()
}

fn settings(foreign: &ForeignModel, precision: Precision) -> Config {
    let mut config = Config::new(foreign.model.clone());
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
fn run(config: Config, weights: ForeignModel, ids: Vec<u32>, targets: Vec<u32>) -> Found {
    let grid = config.grid().unwrap();
    let shared = Arc::new((config, weights, ids, targets));
    let results = ranks(grid.world_size(), move |world, device| {
        let (config, weights, ids, targets) = &*shared;
        let context = Context::new(world, grid, device, config.settings())?;
        let mut trainer = config.trainer(&context)?;
        trainer.load_weights(weights, &[])?;
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
fn logits(config: Config, weights: ForeignModel, ids: Vec<u32>) -> Vec<f64> {
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
                weights.read(
                    parameter.name(),
                    parameter.global_shape(),
                    parameter.index(),
                )
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
fn losses(file: &PlainFile) -> Vec<f64> {
    let bytes = std::fs::read(file.path()).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    serde_json::from_str(header["__metadata__"]["losses"].as_str().unwrap()).unwrap()
}

/// One rank in f64 and f32, and in f32 all grids of 2, 4, 6 and 8 ranks that fit.
fn grids(config: &Config) -> Vec<(Precision, Degrees)> {
    let serial = [Precision::F64, Precision::F32].map(|precision| (precision, Degrees::default()));
    let grids = [2, 4, 6, 8].into_iter().flat_map(factorisations);
    let demands = config.demands();
    let fits = grids.filter(|grid| demands.check(grid).is_ok());
    serial
        .into_iter()
        .chain(fits.map(|grid| (Precision::F32, grid)))
        .collect()
}

fn largest_difference(one: &[f64], other: &[f64]) -> f64 {
    assert_eq!(one.len(), other.len());
    let pairs = one.iter().zip(other);
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

fn check(name: &str) {
    let foreign = foreign(name);
    let file = PlainFile::open(folder(name).join("expected.safetensors")).unwrap();
    let reference_losses = losses(&file);
    let [ids, targets] = ["ids", "targets"].map(|name| file.read_u32(name).unwrap());
    let expected = gradients(&file, &foreign);
    let their_logits = file
        .read_f64("logits", &[3, 16, 67], &IndexBox::full(&[3, 16, 67]))
        .unwrap();
    for precision in [Precision::F64, Precision::F32] {
        let ours = logits(settings(&foreign, precision), foreign.clone(), ids.clone());
        let apart = largest_difference(&ours, &their_logits);
        assert!(
            apart < 1e-4,
            "{name}: logits differ by {apart:.1e} in {precision:?}"
        );
    }
    let grids = grids(&settings(&foreign, Precision::F32));
    assert!(grids.len() > 40, "{name}: {} grids", grids.len());
    for (precision, grid) in grids {
        let mut config = settings(&foreign, precision);
        config.parallel.grid = grid;
        let found = run(config, foreign.clone(), ids.clone(), targets.clone());
        assert!(found.gradients.keys().eq(expected.keys()));
        for (tensor, theirs) in &expected {
            let apart = largest_difference(&found.gradients[tensor], theirs);
            // A key bias has only rounding as its gradient.
            let scale = largest_difference(theirs, &vec![0.0; theirs.len()]).max(1e-2);
            assert!(
                apart <= 1e-4 * scale,
                "{name} on {grid}: gradient of {tensor} differs by {apart:.1e} of {scale:.1e}"
            );
        }
        for (ours, theirs) in found.losses.iter().zip(&reference_losses) {
            assert!(
                (ours - theirs).abs() < 1e-4 * theirs.abs(),
                "{name} on {grid}: {:?}",
                found.losses
            );
        }
    }
}

/// Logits of Megatron-LM for its own checkpoint (tests/fixtures/make_megatron.py).
fn check_megatron(name: &str) {
    let text = std::fs::read_to_string(folder(name).join("expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    let ids: Vec<u32> = serde_json::from_value(expected["tokens"].clone()).unwrap();
    let theirs: Vec<Vec<f64>> = serde_json::from_value(expected["logits"].clone()).unwrap();
    // In f32, whatever the checkpoint has; rows of a batch are alike.
    let config = settings(&foreign(name), Precision::F32);
    let ours = logits(config, foreign(name), ids.repeat(3));
    let apart = largest_difference(&ours, &theirs.concat().repeat(3));
    assert!(apart < 1e-5, "{name}: logits differ by {apart:.1e}");
}

#[test]
fn megatrons_checkpoints_give_its_logits() {
    for name in [
        "megatron_llama",
        "megatron_gpt",
        "megatron_rope",
        "megatron_newer",
    ] {
        check_megatron(name);
    }
}

#[test]
fn gpt2_gives_pytorchs_losses_and_gradients() {
    check("gpt2");
}

#[test]
fn llama_gives_pytorchs_losses_and_gradients() {
    check("llama");
}

#[test]
fn llama_3_stretches_positions_as_pytorch_does() {
    check("llama3");
}

#[test]
fn mistral_has_heads_of_its_own_size() {
    check("mistral");
}

#[test]
fn qwen_2_has_biases_of_queries_and_keys() {
    check("qwen2");
}

#[test]
fn qwen_3_normalises_heads() {
    check("qwen3");
}

#[test]
fn gemma_scales_its_embedding_and_adds_1_to_gains() {
    check("gemma");
}

#[test]
fn gemma_2_bounds_scores_and_logits() {
    check("gemma2");
}

#[test]
fn gemma_3_has_local_blocks_and_norms_what_it_adds() {
    check("gemma3");
}

#[test]
fn gpt_neox_has_attention_and_mlp_beside_each_other() {
    check("gpt_neox");
}

#[test]
fn gpt_neox_has_them_one_after_the_other_too() {
    check("gpt_neox_sequential");
}
