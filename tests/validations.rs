//! What a run does beside its steps to tell how well it learns: sets of a validation, an end without improvement, and texts.

use std::{fs, path::Path, sync::Arc};
use testkit::{config_of_bytes, digest_of, edit_gpt, new_run, ran, ranks};
use train::{
    Config, Error, Summary,
    batches::Batches,
    checkpoint::Digest,
    data::{ReadOptions, RunData, Settings, Source, Tokenizer},
    generate::{Generator, GeneratorOptions, Request, load, text},
    metrics::{self, Record},
    run::{BestValidation, Resume, Run, SampleRecord},
};

const CONTEXT: usize = 16;
const GRIDS: [&str; 5] = ["data=1", "x=2", "data=2", "pipeline=2", "y=2,z=2"];

fn config(grid: &str) -> Config {
    let mut config = config_of_bytes(grid.parse().unwrap());
    edit_gpt(&mut config, |model| model.context = CONTEXT);
    let training = &mut config.training;
    (training.batch, training.micro_batches) = (8, 1);
    (training.steps, training.checkpoint_every) = (6, 1);
    (training.keep_checkpoints, training.validate_every) = (9, 2);
    (training.validation_batches, training.sample_tokens) = (2, 0);
    config
}

/// A file of text, which is repeated.
fn file(parent: &Path, name: &str, text: &str) -> Source {
    let path = parent.join(name);
    fs::write(&path, text.repeat(100)).unwrap();
    Source::detect(&path, &[], None).unwrap()
}

fn settings() -> Settings {
    Settings {
        context: CONTEXT,
        global_batch: 8,
        validation_batches: 2,
        ..Settings::default()
    }
}

fn read(source: &Source, validation: Option<&Source>, evaluations: &[(&str, Source)]) -> RunData {
    let named = |(name, source): &(&str, Source)| ((*name).to_owned(), source.clone());
    let options = ReadOptions {
        evaluations: evaluations.iter().map(named).collect(),
        ..ReadOptions::default()
    };
    RunData::new(source, validation, &options, &settings()).unwrap()
}

fn summary_of(this: &Run) -> Result<Summary, Error> {
    let ended = ran(this)?;
    // All but the traffic, which each rank counts for itself.
    assert!(ended.iter().all(|one| one.sample == ended[0].sample));
    Ok(ended[0].clone())
}

fn records(dir: &Path) -> Vec<Record> {
    metrics::read(&dir.join("metrics.jsonl")).unwrap()
}

fn trained(grid: &str, data: &Arc<dyn Batches>) -> (Vec<Record>, (u64, Digest)) {
    let dir = tempfile::tempdir().unwrap();
    summary_of(&new_run(config(grid), data.clone(), dir.path())).unwrap();
    (records(dir.path()), digest_of(dir.path()))
}

/// A watched set has the loss that it would have as the validation, and nothing of the run depends on it.
#[test]
fn a_set_that_is_watched_has_its_own_loss_and_changes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let [own, other, third] = [("a", "to be or not "), ("b", "0123456789 "), ("c", "abcab")]
        .map(|(name, text)| file(place.path(), name, text));
    let plain = read(&own, Some(&other), &[]).batches;
    let sets = [("digits", other.clone()), ("letters", third)];
    let watched = read(&own, Some(&other), &sets).batches;
    assert_eq!(plain.fingerprint(), watched.fingerprint());
    for grid in GRIDS {
        let (plain, plain_digest) = trained(grid, &plain);
        let (watched, digest) = trained(grid, &watched);
        assert_eq!(digest, plain_digest, "{grid}");
        assert!(plain.iter().all(|record| record.val_losses.is_empty()));
        for step in [2, 4, 6] {
            let [plain, watched] = [&plain, &watched].map(|records| &records[step - 1]);
            assert_eq!(plain.val_loss, watched.val_loss, "{grid}, step {step}");
            let sets = &watched.val_losses;
            assert_eq!(
                sets.keys().collect::<Vec<_>>(),
                ["digits", "letters", "validation"]
            );
            assert_eq!(Some(sets["validation"]), watched.val_loss);
            // It is the same text.
            assert_eq!(sets["digits"], sets["validation"], "{grid}, step {step}");
            assert_ne!(sets["letters"], sets["digits"]);
        }
    }
}

#[test]
fn a_mixture_states_the_loss_of_each_source() {
    let place = tempfile::tempdir().unwrap();
    let sources = [
        ("a.txt", "to be or not ", 3.0),
        ("b.txt", "0123456789 ", 1.0),
    ]
    .map(|(name, text, weight)| (file(place.path(), name, text), weight));
    let data = RunData::mixture(&sources, None, &ReadOptions::default(), &settings()).unwrap();
    let mut expected: Option<Vec<Record>> = None;
    for grid in GRIDS {
        let (records, _) = trained(grid, &data.batches);
        for (index, record) in records.iter().enumerate() {
            let Some(loss) = record.val_loss else {
                assert!(record.val_losses.is_empty());
                continue;
            };
            let [a, b] = ["a.txt", "b.txt"].map(|name| record.val_losses[name]);
            assert_eq!(loss, (0.75 * a + 0.25 * b) / 1.0, "{grid}");
            assert_ne!(a, b);
            let first = expected.as_ref().map_or(record, |records| &records[index]);
            for (name, found) in &record.val_losses {
                let needed = first.val_losses[name];
                assert!(
                    (found - needed).abs() < 1e-4,
                    "{grid}: {name} {found}, {needed}"
                );
            }
        }
        expected.get_or_insert(records);
    }
}

#[test]
fn evaluations_of_one_name_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let own = file(place.path(), "a", "to be or not ");
    for name in ["validation", ""] {
        let options = ReadOptions {
            evaluations: vec![(name.to_owned(), own.clone())],
            ..ReadOptions::default()
        };
        let Err(error) = RunData::new(&own, None, &options, &settings()) else {
            panic!("{name} is accepted")
        };
        let needed = format!(
            "data: name in data.evaluations is {name:?} for {}, needs one that no other set has",
            own.name()
        );
        assert_eq!(error.to_string(), needed);
    }
}

/// With a lower loss out of reach, the third validation ends the run; so it does where the run was interrupted before.
#[test]
fn a_run_ends_when_validations_find_no_lower_loss() {
    let place = tempfile::tempdir().unwrap();
    let data = read(&file(place.path(), "a", "to be or not "), None, &[]).batches;
    for grid in GRIDS {
        let dir = tempfile::tempdir().unwrap();
        let mut this = new_run(config(grid), data.clone(), dir.path());
        let training = &mut this.config.training;
        training.steps = 20;
        (training.patience, training.min_delta) = (2, 100.0);
        let summary = summary_of(&this).unwrap();
        let best = summary.out_of_patience.unwrap();
        let first = records(dir.path())[1].val_loss.unwrap();
        let needed = BestValidation {
            loss: first,
            step: 2,
            since: 2,
        };
        assert_eq!(
            (best, summary.steps, summary.stopped),
            (needed, 6, false),
            "{grid}"
        );
        assert!(summary.checkpoint.unwrap().ends_with("step-00000006"));
        let whole = digest_of(dir.path());

        let again = tempfile::tempdir().unwrap();
        let resume = |dir: &Path, step: u64, patience: u64| {
            let mut resumed = this.clone();
            resumed.dir = dir.to_owned();
            resumed.config.training.patience = patience;
            resumed.resume = Some(Resume {
                checkpoint: dir.join(format!("checkpoints/step-{step:08}")),
                any_change: false,
            });
            summary_of(&resumed).unwrap()
        };
        fs::create_dir(again.path().join("checkpoints")).unwrap();
        let part = Path::new("checkpoints/step-00000003");
        fs::create_dir(again.path().join(part)).unwrap();
        for entry in fs::read_dir(dir.path().join(part)).unwrap() {
            let from = entry.unwrap().path();
            fs::copy(
                &from,
                again.path().join(part).join(from.file_name().unwrap()),
            )
            .unwrap();
        }
        let summary = resume(again.path(), 3, 2);
        assert_eq!(
            (summary.out_of_patience, summary.steps),
            (Some(needed), 6),
            "{grid}"
        );
        assert_eq!(digest_of(again.path()), whole, "{grid}");

        // Ended is ended, unless there is more patience.
        assert_eq!(resume(dir.path(), 6, 2).steps, 6, "{grid}");
        assert_eq!(resume(dir.path(), 6, 3).steps, 8, "{grid}");
        assert_eq!(resume(dir.path(), 8, 0).steps, 20, "{grid}");
    }
}

#[test]
fn patience_needs_validations() {
    let mut config = config("data=1");
    (config.training.patience, config.training.validate_every) = (3, 0);
    assert_eq!(
        config.training.check().unwrap_err().to_string(),
        "training.patience: found 3, with training.validate_every = 0 and validation_batches = 2, needs validations during the run, or 0"
    );
}

/// Texts between steps are those of the checkpoint of the step, and no step depends on them.
#[test]
fn a_model_in_training_writes_what_its_checkpoint_writes() {
    let place = tempfile::tempdir().unwrap();
    let data = read(&file(place.path(), "a", "to be or not "), None, &[]).batches;
    let mut grids = GRIDS.to_vec();
    grids.push("pipeline=2, interleaved");
    for grid in grids {
        let (degrees, chunks) = grid
            .split_once(", ")
            .map_or((grid, ""), |(grid, _)| (grid, "x"));
        let [plain, writing] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let mut this = new_run(config(degrees), data.clone(), plain.path());
        this.tokenizer = Some(Tokenizer::bytes());
        if !chunks.is_empty() {
            this.config.parallel.schedule = "interleaved:2".parse().unwrap();
            this.config.training.micro_batches = 2;
        }
        assert_eq!(summary_of(&this).unwrap().sample, None);
        this.dir = writing.path().to_owned();
        let training = &mut this.config.training;
        (training.sample_every, training.sample_tokens) = (2, 24);
        training.sample_prompt = "to be".into();
        let summary = summary_of(&this).unwrap();
        assert_eq!(digest_of(writing.path()), digest_of(plain.path()), "{grid}");
        let samples: Vec<SampleRecord> =
            metrics::read(&writing.path().join("samples.jsonl")).unwrap();
        let steps: Vec<u64> = samples.iter().map(|sample| sample.step).collect();
        assert_eq!(steps, [2, 4, 6], "{grid}");
        assert_eq!(summary.sample.as_ref(), Some(&samples[2].text), "{grid}");
        for sample in samples {
            let checkpoint = writing
                .path()
                .join(format!("checkpoints/step-{:08}", sample.step));
            assert_eq!(sample.text, written(&this.config, checkpoint), "{grid}");
        }
    }
}

fn written(config: &Config, checkpoint: std::path::PathBuf) -> String {
    let config = config.clone();
    let num_ranks = config.grid().unwrap().world_size();
    let texts = ranks(num_ranks, move |world, device| {
        let reader = train::checkpoint::Reader::open(&checkpoint).unwrap();
        let pipeline = load(&world, &device, &config, &reader, None).unwrap();
        let tokenizer = Tokenizer::bytes();
        let options = GeneratorOptions::default();
        let text = text(&config).unwrap();
        let mut generator = Generator::new(&pipeline, text, &tokenizer, options).unwrap();
        generator
            .add(Request {
                prompt: tokenizer.encode("to be").unwrap(),
                tokens: 24,
                ..Request::default()
            })
            .unwrap();
        let mut text = "to be".to_owned();
        generator
            .run(|token| {
                text += &token.text;
                Ok(())
            })
            .unwrap();
        Ok(text)
    });
    texts[0].clone()
}
