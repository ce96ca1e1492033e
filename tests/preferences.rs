//! Direct preference optimisation: losses, gradients and reports are those of its definition, computed from the sequences alone, on
//! every grid, and to the bit where that is asked.

use ::train::{
    Config, Trainer,
    batches::{Batches, Rows},
    config::{ObjectiveKind, Precision},
    data::{Pair, PairOptions, Preferences, Sample, Tokenizer},
    preference::PreferenceMetrics,
};
use families::GptFamily;
use grid::Degrees;
use parallel::{Reproducible, data::Sharding};
use std::{
    ops::Range,
    sync::{Arc, LazyLock},
};
use testkit::{
    Outcome, SCHEDULES, assert_near, bits, config, edit_gpt, grids,
    numbers::{self, drawn, drawn_tokens, text_of},
    on, ranks, train_rows,
};

const F64: f64 = 1e-9;

/// Tokens of a row, of the vocabulary, and rows of the batch.
const TOKENS: usize = 32;
const VOCABULARY: usize = 8;
const ROWS: usize = 16;

/// As many pairs as fill one batch, so that the order of its rows does not matter.
static NUM_PAIRS: LazyLock<usize> = LazyLock::new(|| {
    let fill = |pairs: &usize| of(*pairs).packed()[0].rows == ROWS;
    (1..60)
        .rev()
        .find(fill)
        .expect("a number of pairs in 16 rows")
});

const BETA: f64 = 0.7;
const SMOOTHING: f64 = 0.125;

/// A prompt and its two answers, of lengths that differ.
fn pair(index: usize) -> [Vec<u32>; 3] {
    let tokens = |what, most| drawn_tokens(what, index, most, VOCABULARY);
    [
        tokens("prompt", 6),
        tokens("chosen", 9),
        tokens("rejected", 8),
    ]
}

/// Log-probabilities of some reference model.
fn reference(sequence: usize) -> f64 {
    -f64::from(drawn("reference", sequence, 0) % 1000) / 50.0
}

fn pairs() -> Preferences {
    let pairs = of(*NUM_PAIRS);
    // The validation has the first pairs, and their numbers.
    let sequences = (0..2 * *NUM_PAIRS).chain(0..2 * 9);
    pairs
        .with_reference(sequences.map(reference).collect())
        .unwrap()
}

/// This many pairs, and nine of them to validate on.
fn of(num_pairs: usize) -> Preferences {
    let content = |indices: Range<usize>| {
        let samples = indices.map(|index| {
            let [prompt, chosen, rejected] = pair(index).map(|tokens| text_of(&tokens));
            let completion = |completion| Sample::Completion {
                prompt: prompt.clone(),
                completion,
            };
            Sample::Pair(Box::new(Pair {
                chosen: completion(chosen),
                rejected: completion(rejected),
                given: 0,
            }))
        });
        numbers::samples(samples)
    };
    let settings = numbers::settings(TOKENS, ROWS);
    let options = PairOptions {
        label_smoothing: SMOOTHING,
    };
    let tokenizer = Tokenizer::ids(VOCABULARY);
    let held_out = Some(content(0..9));
    let pairs = Preferences::new(
        content(0..num_pairs),
        held_out,
        &tokenizer,
        (&settings, options),
    );
    pairs.unwrap()
}

fn model(family: GptFamily, precision: Precision) -> Config {
    let mut config = config(precision);
    (config.training.steps, config.training.clip_norm) = (1, 0.0);
    config.training.batch = ROWS;
    config.training.objective = ObjectiveKind::Dpo;
    (
        config.training.dpo_beta,
        config.training.dpo_label_smoothing,
    ) = (BETA, SMOOTHING);
    edit_gpt(&mut config, |model| {
        (model.context, model.vocabulary, model.family) = (TOKENS, VOCABULARY, family);
        if family == GptFamily::Llama {
            (model.hidden, model.heads, model.kv_heads) = (64, 16, 8);
            (model.tied_head, model.mlp_hidden) = (false, 80);
        }
    });
    config
}

fn trained(config: &Config) -> Outcome {
    let source = Arc::new(pairs());
    train_rows(config, move |step, range| source.training(step, range))
}

/// One sequence in a row, whose model is trained on the likelihood of the answer: the loss is the answer's log-probability over the
/// row's tokens, with the other sign.
fn alone(config: &Config, sequence: usize) -> Outcome {
    let [prompt, chosen, rejected] = pair(sequence / 2);
    let answer = if sequence.is_multiple_of(2) {
        chosen
    } else {
        rejected
    };
    let tokens = [&prompt[..], &answer[..]].concat();
    let mut config = on(config, Degrees::default());
    config.training.objective = ObjectiveKind::Model;
    (config.training.batch, config.training.micro_batches) = (1, 1);
    train_rows(&config, move |_, _| {
        let mut inputs = tokens[..tokens.len() - 1].to_vec();
        let target = |place: usize| match place + 1 >= prompt.len() {
            true => tokens[place + 1],
            false => u32::MAX,
        };
        let mut targets: Vec<u32> = (0..inputs.len()).map(target).collect();
        inputs.resize(TOKENS, 3);
        targets.resize(TOKENS, u32::MAX);
        let shape = [TOKENS];
        Ok(Rows::new()
            .with("inputs", &shape, inputs)
            .with("targets", &shape, targets))
    })
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Loss, gradients and report by the definition: equation 7 of the paper, and its derivative, below equation 7.
fn expected(config: &Config) -> (Outcome, PreferenceMetrics) {
    let mut total = Outcome {
        losses: vec![0.0],
        ..Outcome::default()
    };
    let mut report = PreferenceMetrics::default();
    let mean = 1.0 / *NUM_PAIRS as f64;
    for index in 0..*NUM_PAIRS {
        let sequences = [2 * index, 2 * index + 1];
        let outcomes = sequences.map(|sequence| alone(config, sequence));
        let found = [0, 1].map(|side: usize| -outcomes[side].losses[0] * TOKENS as f64);
        let rewards = [0, 1].map(|side: usize| BETA * (found[side] - reference(sequences[side])));
        let margin = rewards[0] - rewards[1];
        let log_sigmoid = |x: f64| -(-x).exp().ln_1p();
        total.losses[0] -=
            mean * ((1.0 - SMOOTHING) * log_sigmoid(margin) + SMOOTHING * log_sigmoid(-margin));
        let slope = (1.0 - SMOOTHING) * sigmoid(-margin) - SMOOTHING * sigmoid(margin);
        for (side, sign) in [(0, 1.0), (1, -1.0)] {
            // Of the log-probability with the other sign.
            let factor = mean * BETA * slope * sign * TOKENS as f64;
            for (name, values) in &outcomes[side].gradients {
                let sum = total.gradients.entry(name.clone()).or_default();
                sum.resize(values.len(), 0.0);
                let pairs = sum.iter_mut().zip(values);
                pairs.for_each(|(sum, value)| *sum += factor * value);
            }
        }
        report.chosen_reward += mean * rewards[0];
        report.rejected_reward += mean * rewards[1];
        report.accuracy += mean * f64::from(margin > 0.0);
        report.margin += mean * margin;
        report.chosen_log_probability += mean * found[0];
        report.rejected_log_probability += mean * found[1];
    }
    (total, report)
}

#[test]
fn the_pairs_fill_one_batch() {
    let [training, _] = pairs().packed();
    assert_eq!((training.samples, training.rows), (*NUM_PAIRS, ROWS));
    assert!(training.samples > ROWS, "rows of several pairs");
    assert_eq!((training.cut, training.dropped), (0, 0));
    assert!(training.padding > 0);
}

fn check(mut config: Config) {
    let (expected, _) = expected(&config);
    let mut grids = grids(&[1, 2, 4, 8]);
    grids.extend(
        ["context=2", "context=4", "x=2,context=2"].map(|grid| grid.parse::<Degrees>().unwrap()),
    );
    for grid in grids {
        let found = trained(&on(&config, grid));
        assert_near(&found, &expected, F64, &grid.to_string());
    }
    config.parallel.sequence_parallel = true;
    for grid in ["x=2", "x=4", "x=2,context=2"] {
        let found = trained(&on(&config, grid.parse().unwrap()));
        assert_near(
            &found,
            &expected,
            F64,
            &format!("{grid}, sequence parallel"),
        );
    }
    config.training.micro_batches = 4;
    config.parallel.sharding = Sharding::Gradients;
    config.training.recompute = true.into();
    for grid in ["x=1", "z=2,data=2", "x=2,pipeline=2"] {
        let found = trained(&on(&config, grid.parse().unwrap()));
        assert_near(&found, &expected, F64, &format!("{grid}, 4 micro-batches"));
    }
}

#[test]
fn gpt2_on_every_grid() {
    check(model(GptFamily::Gpt2, Precision::F64));
}

#[test]
fn llama_on_every_grid() {
    check(model(GptFamily::Llama, Precision::F64));
}

#[test]
fn every_schedule() {
    let mut config = model(GptFamily::Gpt2, Precision::F64);
    let (expected, _) = expected(&config);
    config.training.micro_batches = 4;
    for schedule in SCHEDULES {
        config.parallel.schedule = schedule.parse().unwrap();
        let found = trained(&on(&config, "pipeline=2".parse().unwrap()));
        assert_near(&found, &expected, F64, schedule);
    }
}

#[test]
fn every_grid_has_the_bits_of_one_rank() {
    for precision in [Precision::F32, Precision::Bf16] {
        let mut config = model(GptFamily::Llama, precision);
        config.training.steps = 3;
        config.training.reproducible = Reproducible::Grid.into();
        let expected = trained(&on(&config, Degrees::default()));
        for grid in [
            "x=2",
            "y=2",
            "z=2,data=2",
            "context=2,pipeline=2",
            "x=2,data=2",
        ] {
            let found = trained(&on(&config, grid.parse().unwrap()));
            bits::check(&found, &expected, grid);
        }
    }
}

fn assert_reports(found: PreferenceMetrics, expected: PreferenceMetrics, what: &str) {
    for ((name, found), (_, expected)) in found.named().into_iter().zip(expected.named()) {
        let error = (found - expected).abs();
        assert!(error < 1e-9, "{what}: {name} {found} against {expected}");
    }
}

// Every rank reports the means over all pairs of the batch. As its own reference, a model rewards nothing.
#[test]
fn reports_are_those_of_the_definition() {
    let config = model(GptFamily::Gpt2, Precision::F64);
    let (_, expected) = expected(&config);
    for grid in ["x=1", "x=2,context=2", "z=2,data=2", "pipeline=2,data=2"] {
        let config = on(&config, grid.parse().unwrap());
        let size = config.parallel.grid.world_size().unwrap();
        let found = ranks(size, move |world, device| {
            let context = config.context(&world, &device)?;
            let mut trainer: Trainer = config.trainer(&context)?;
            let data = pairs();
            let own = trainer.reference(&data, |_| {})?;
            let own = data.with_reference(own).unwrap();
            let validation = trainer.validate(&own)?;
            let reported = trainer.step(&trainer.batch(&data)?)?.preferences;
            Ok((reported, validation))
        });
        for (reported, validation) in found {
            assert_reports(reported.unwrap(), expected, grid);
            let own = validation.preferences.unwrap();
            let rewards = [
                own.chosen_reward,
                own.rejected_reward,
                own.margin,
                own.accuracy,
            ];
            assert!(
                rewards.iter().all(|reward| reward.abs() < 1e-12),
                "{grid}: {own:?}"
            );
            assert!(own.chosen_log_probability < -1.0);
            let loss = validation.loss.unwrap();
            assert!((loss - 2f64.ln()).abs() < 1e-12, "{grid}: {loss}");
        }
    }
}
