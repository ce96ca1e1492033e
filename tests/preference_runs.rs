//! Runs on pairs of answers: they begin at their reference model, learn, and go on from a checkpoint with the same bits.

use grid::Degrees;
use parallel::Reproducible;
use std::{fs, path::Path, sync::Arc};
use testkit::{config_of_bytes, digest_of, edit_gpt, new_run, ran};
use train::{
    Config,
    config::{EvaluationEntry, ObjectiveKind},
    data::{Content, Pair, PairOptions, Preferences, Sample, Settings, Tokenizer},
    metrics::{self, Record},
    optimiser::RateSchedule,
    run::{Resume, Run},
};

const FILE: &str = "reference-log-probabilities.f64";

fn pairs(config: &Config) -> Preferences {
    let sample = |index: usize| {
        let completion = |answer: &str| Sample::Completion {
            prompt: format!("{index}?"),
            completion: answer.into(),
        };
        Sample::Pair(Box::new(Pair {
            chosen: completion("yes"),
            rejected: completion("no"),
            given: 0,
        }))
    };
    let content = Content::Samples {
        name: "pairs".into(),
        samples: (0..40).map(sample).collect(),
    };
    let settings = Settings {
        context: config.model.text().unwrap().context,
        global_batch: config.training.batch,
        validation_batches: 2,
        ..Settings::default()
    };
    let how = (&settings, PairOptions::default());
    Preferences::new(content, None, &Tokenizer::bytes(), how).unwrap()
}

fn config(grid: &str) -> Config {
    let grid: Degrees = grid.parse().unwrap();
    let mut config = config_of_bytes(grid);
    edit_gpt(&mut config, |model| {
        (model.context, model.dropout) = (32, 0.0)
    });
    let training = &mut config.training;
    training.objective = ObjectiveKind::Dpo;
    (
        training.steps,
        training.checkpoint_every,
        training.warmup_steps,
    ) = (6, 3, 0);
    training.validate_every = 3;
    // The rate of a step must not depend on how many there are.
    training.rate_schedule = RateSchedule::Constant;
    training.reproducible = Reproducible::Grid.into();
    config
}

fn of(config: &Config, dir: &Path) -> Run {
    new_run(config.clone(), Arc::new(pairs(config)), dir)
}

fn resumed(config: &Config, dir: &Path) -> Run {
    let checkpoints = fs::read_dir(dir.join("checkpoints")).unwrap();
    let checkpoints = checkpoints.map(|entry| entry.unwrap().path());
    let checkpoint = checkpoints.filter(|path| path.is_dir()).max().unwrap();
    let resume = Resume {
        checkpoint,
        any_change: false,
    };
    Run {
        resume: Some(resume),
        ..of(config, dir)
    }
}

fn check(mut config: Config, other_grid: &str) {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    ran(&of(&config, one.path())).unwrap();
    let records = |dir: &Path| metrics::read::<Record>(&dir.join("metrics.jsonl")).unwrap();
    let whole = records(one.path());
    let report = |record: &Record| record.preferences.unwrap();
    let (first, last) = (report(&whole[0]), report(&whole[5]));
    assert!((whole[0].loss - 2f64.ln()).abs() < 1e-5, "{:?}", whole[0]);
    assert!(first.margin.abs() < 1e-5 && first.chosen_reward.abs() < 1e-5);
    assert!(last.margin > 0.01 && last.accuracy == 1.0, "{last:?}");
    assert!(whole[5].loss < whole[0].loss);
    assert_eq!(whole[5].val_preferences.unwrap().accuracy, 1.0);

    config.training.steps = 3;
    ran(&of(&config, other.path())).unwrap();
    config.training.steps = 6;
    config.parallel.grid = other_grid.parse().unwrap();
    ran(&resumed(&config, other.path())).unwrap();
    let digests = [&one, &other].map(|dir| digest_of(&dir.path().join("checkpoints")));
    assert_eq!(digests[0], digests[1]);
    for (found, expected) in records(other.path()).iter().zip(&whole) {
        assert_eq!(
            (found.loss, found.preferences),
            (expected.loss, expected.preferences)
        );
    }
    let files = [&one, &other].map(|dir| fs::read(dir.path().join(FILE)).unwrap());
    assert_eq!(files[0].len(), 40 * 2 * 8);
    assert_eq!(files[0], files[1]);
}

#[test]
fn all_weights() {
    check(config("x=2"), "z=2");
}

#[test]
fn adapters() {
    let mut config = config("data=2");
    config.tuning.adapter_rank = 4;
    config.training.learning_rate = 0.05;
    check(config, "pipeline=2");
}

#[test]
fn a_run_without_its_reference_is_refused() {
    let mut config = config("x=1");
    let dir = tempfile::tempdir().unwrap();
    config.training.steps = 3;
    ran(&of(&config, dir.path())).unwrap();
    config.training.steps = 6;
    let path = dir.path().join(FILE);
    let mut bytes = fs::read(&path).unwrap();
    let refusal = || {
        resumed(&config, dir.path())
            .check()
            .unwrap_err()
            .to_string()
    };
    fs::write(&path, &bytes[..bytes.len() - 8]).unwrap();
    let found = refusal();
    assert!(
        found.contains("632 bytes") && found.contains("needs 640 bytes"),
        "{found}"
    );
    bytes[7] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let found = refusal();
    assert!(found.contains("reference"), "{found}");
    fs::remove_file(&path).unwrap();
    let found = refusal();
    let needed = "needs the one that the run wrote before its first step";
    assert!(
        found.contains(&format!("no {FILE} in")) && found.contains(needed),
        "{found}"
    );
}

#[test]
fn what_does_not_go_together_is_named() {
    let refusal = |edit: &dyn Fn(&mut Config)| {
        let mut config = config("x=1");
        edit(&mut config);
        config.check().unwrap_err().to_string()
    };
    let with = "with training.objective = \"dpo\"";
    for (found, needed) in [
        (
            refusal(&|config| config.training.dpo_label_smoothing = 0.5),
            format!("training.dpo_label_smoothing: found 0.5 {with}, needs a number below 0.5"),
        ),
        (
            refusal(&|config| config.data.loss_on = train::data::LossOn::All),
            format!("data.loss_on: found all {with}, needs answers"),
        ),
        (
            refusal(&|config| {
                let entry = EvaluationEntry {
                    name: "other".into(),
                    path: "other.jsonl".into(),
                };
                config.data.evaluations = vec![entry];
            }),
            format!("data.evaluations: found 1 set {with}, needs none"),
        ),
        (
            refusal(&|config| config.training.dpo_beta = 0.0),
            "training.dpo_beta: found 0, needs a number above 0".into(),
        ),
    ] {
        assert!(found.contains(&needed), "{found}");
    }
}
