//! Samples that share a row have the losses and gradients that they have alone, whatever shares of their tokens count, on every
//! grid, and to the bit where that is asked.

use ::train::{
    Config,
    batches::{Batches, Rows},
    config::Precision,
    data::{LossOn, Sample, Samples, Tokenizer},
};
use families::GptFamily;
use grid::Degrees;
use parallel::{Reproducible, data::Sharding};
use std::{ops::Range, sync::Arc};
use testkit::{
    Outcome, SCHEDULES, assert_near, bits, config, edit_gpt, grids,
    numbers::{self, drawn_tokens, text_of},
    on, ranks, scaled, train_rows,
};

const F64: f64 = 1e-9;

/// Tokens of a row, of the vocabulary, and rows of the batch.
const TOKENS: usize = 16;
const VOCABULARY: usize = 8;
const ROWS: usize = 16;

type Source = Arc<dyn Batches>;

/// A prompt and its completion, of lengths that differ.
fn sample(index: usize) -> [Vec<u32>; 2] {
    let tokens = |what, most| drawn_tokens(what, index, most, VOCABULARY);
    [tokens("prompt", 5), tokens("completion", 6)]
}

const NUM_SAMPLES: usize = 44;

fn packed(loss: LossOn) -> Samples {
    let content = |indices: Range<usize>| {
        let samples = indices.map(|index| {
            let [prompt, completion] = sample(index).map(|tokens| text_of(&tokens));
            Sample::Completion { prompt, completion }
        });
        numbers::samples(samples)
    };
    let settings = numbers::settings(TOKENS, ROWS);
    let validation = Some(content(0..9));
    let tokenizer = Tokenizer::ids(VOCABULARY);
    Samples::new(
        content(0..NUM_SAMPLES),
        validation,
        &tokenizer,
        (&settings, loss),
    )
    .unwrap()
}

/// A sample in each row, without any column that keeps samples apart. Behind it are tokens without targets, which it does not
/// see.
fn alone(loss: LossOn) -> impl Fn(u64, Range<usize>) -> ::train::Result<Rows> + Send + Sync {
    move |_, rows| {
        let (mut inputs, mut targets) = (Vec::new(), Vec::new());
        for index in rows {
            let [prompt, completion] = sample(index);
            let tokens = [&prompt[..], &completion[..]].concat();
            let places = tokens.len() - 1;
            let counts = |place: usize| loss == LossOn::All || place + 1 >= prompt.len();
            let target = |place| {
                if counts(place) {
                    tokens[place + 1]
                } else {
                    u32::MAX
                }
            };
            inputs.extend_from_slice(&tokens[..places]);
            targets.extend((0..places).map(target));
            inputs.extend(std::iter::repeat_n(3, TOKENS - places));
            targets.extend(std::iter::repeat_n(u32::MAX, TOKENS - places));
        }
        let shape = [TOKENS];
        Ok(Rows::new()
            .with("inputs", &shape, inputs)
            .with("targets", &shape, targets))
    }
}

fn model(family: GptFamily, precision: Precision) -> Config {
    let mut config = config(precision);
    (config.training.steps, config.training.clip_norm) = (1, 0.0);
    config.training.batch = ROWS;
    edit_gpt(&mut config, |model| {
        (model.context, model.vocabulary, model.family) = (TOKENS, VOCABULARY, family);
        if family == GptFamily::Llama {
            (model.hidden, model.heads, model.kv_heads) = (64, 16, 8);
            (model.tied_head, model.mlp_hidden) = (false, 80);
        }
    });
    config
}

fn trained(config: &Config, source: Source) -> Outcome {
    train_rows(config, move |step, range| source.training(step, range))
}

/// What the samples give in rows of their own: a mean over tokens of which few count.
fn expected(config: &Config, loss: LossOn) -> Outcome {
    let mut config = on(config, Degrees::default());
    config.training.batch = NUM_SAMPLES;
    config.training.micro_batches = 1;
    let outcome = trained(&config, Arc::new(alone(loss)));
    let counted = packed(loss).packed()[0].counted;
    scaled(outcome, (NUM_SAMPLES * TOKENS) as f64 / counted as f64)
}

// An epoch is one batch, so that the order of its rows does not matter.
#[test]
fn the_samples_fill_one_batch() {
    let [training, _] = packed(LossOn::Answers).packed();
    assert_eq!((training.samples, training.rows), (NUM_SAMPLES, ROWS));
    assert!(training.padding > 0 && training.counted < ROWS * TOKENS);
}

fn check(mut config: Config, loss: LossOn) {
    let expected = expected(&config, loss);
    let samples: Source = Arc::new(packed(loss));
    let mut grids = grids(&[1, 2, 4, 8]);
    grids.extend(
        ["context=2", "context=4", "x=2,context=2"].map(|grid| grid.parse::<Degrees>().unwrap()),
    );
    for grid in grids {
        let found = trained(&on(&config, grid), samples.clone());
        assert_near(&found, &expected, F64, &grid.to_string());
    }
    config.training.micro_batches = 4;
    config.parallel.sharding = Sharding::Gradients;
    config.training.recompute = true.into();
    for grid in ["x=1", "z=2,data=2", "x=2,pipeline=2"] {
        let found = trained(&on(&config, grid.parse().unwrap()), samples.clone());
        assert_near(&found, &expected, F64, &format!("{grid}, 4 micro-batches"));
    }
}

#[test]
fn answers_of_gpt2() {
    check(model(GptFamily::Gpt2, Precision::F64), LossOn::Answers);
}

#[test]
fn answers_of_llama() {
    check(model(GptFamily::Llama, Precision::F64), LossOn::Answers);
}

#[test]
fn all_tokens_of_gpt2() {
    check(model(GptFamily::Gpt2, Precision::F64), LossOn::All);
}

#[test]
fn every_schedule() {
    let mut config = model(GptFamily::Gpt2, Precision::F64);
    let expected = expected(&config, LossOn::Answers);
    let samples: Source = Arc::new(packed(LossOn::Answers));
    config.training.micro_batches = 4;
    for schedule in SCHEDULES {
        config.parallel.schedule = schedule.parse().unwrap();
        let found = trained(&on(&config, "pipeline=2".parse().unwrap()), samples.clone());
        assert_near(&found, &expected, F64, schedule);
    }
}

#[test]
fn every_grid_has_the_bits_of_one_rank() {
    for precision in [Precision::F32, Precision::Bf16] {
        let mut config = model(GptFamily::Llama, precision);
        config.training.steps = 3;
        config.training.reproducible = Reproducible::Grid.into();
        let samples: Source = Arc::new(packed(LossOn::Answers));
        let expected = trained(&on(&config, Degrees::default()), samples.clone());
        for grid in [
            "x=2",
            "y=2",
            "z=2,data=2",
            "context=2,pipeline=2",
            "x=2,data=2",
        ] {
            let found = trained(&on(&config, grid.parse().unwrap()), samples.clone());
            bits::check(&found, &expected, grid);
        }
    }
}

// A validation is the mean over all tokens that count, on any grid and in any number of batches.
#[test]
fn a_validation_is_the_mean_over_all_that_counts() {
    let validated = |grid: &str, precision| {
        let config = on(&model(GptFamily::Gpt2, precision), grid.parse().unwrap());
        let size = config.parallel.grid.world_size().unwrap();
        let losses = ranks(size, move |world, device| {
            let context = config.context(&world, &device)?;
            let trainer = config.trainer(&context)?;
            Ok(trainer.validate(&packed(LossOn::Answers))?.loss.unwrap())
        });
        losses[0]
    };
    let expected = {
        let mut config = model(GptFamily::Gpt2, Precision::F64);
        config.training.batch = 9;
        config.training.micro_batches = 1;
        let first_nine = packed(LossOn::Answers).packed()[1].counted;
        let outcome = trained(
            &on(&config, Degrees::default()),
            Arc::new(alone(LossOn::Answers)),
        );
        outcome.losses[0] * (9 * TOKENS) as f64 / first_nine as f64
    };
    for grid in ["x=1", "x=2", "z=2,data=2", "context=2", "pipeline=2"] {
        let found = validated(grid, Precision::F64);
        assert!(
            (found - expected).abs() <= F64,
            "{grid}: {found} against {expected}"
        );
    }
}
