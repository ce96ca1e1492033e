//! Runs: what ranks must share, what ends them early, and what their folder holds.

use std::{
    fs,
    ops::Range,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use testkit::{Watched, config_of_bytes, dataset, digest_of, edit_gpt, ranks, run_of_bytes};
use train::{
    Error, Observer, Stop, Summary, Trainer,
    batches::{Batches, Rows},
    run::{Resume, Run, run},
    trainer::StepDone,
};

struct Silent;

impl Observer for Silent {}

/// A run of three steps, each with a checkpoint.
fn three_steps(grid: &str, dir: &Path) -> Run {
    let mut config = config_of_bytes(grid.parse().unwrap());
    (config.training.steps, config.training.checkpoint_every) = (3, 1);
    run_of_bytes(config, dir)
}

/// What each rank of a run returns, where a rank may run something else.
fn of_ranks(
    this: Run,
    edit: impl Fn(usize, &mut Run) + Send + Sync + 'static,
    stop: Arc<Stop>,
) -> Vec<Result<Summary, Error>> {
    let _lock = this.prepare().unwrap();
    let num_ranks = this.config.grid().unwrap().world_size();
    ranks(num_ranks, move |world, device| {
        let mut this = this.clone();
        edit(world.rank(), &mut this);
        Ok(run(&world, &device, &this, &Silent, &stop))
    })
}

#[test]
fn replicas_share_the_writing_of_a_checkpoint() {
    for grid in ["data=2", "x=2,data=2", "data=4,pipeline=2"] {
        let dir = tempfile::tempdir().unwrap();
        let this = three_steps(grid, dir.path());
        let num_ranks = this.config.grid().unwrap().world_size();
        let ended = of_ranks(this, |_, _| {}, Arc::default());
        let checkpoint = ended[0].as_ref().unwrap().checkpoint.clone().unwrap();
        let entries = fs::read_dir(&checkpoint).unwrap().map(Result::unwrap);
        let shards: Vec<u64> = entries
            .filter(|entry| {
                entry
                    .path()
                    .extension()
                    .is_some_and(|end| end == "safetensors")
            })
            .map(|entry| entry.metadata().unwrap().len())
            .collect();
        assert_eq!(shards.len(), num_ranks, "{grid}: {shards:?}");
        let (least, most) = (shards.iter().min().unwrap(), shards.iter().max().unwrap());
        assert!(*most < 3 * least, "{grid}: {shards:?}");
        train::checkpoint::Reader::open(&checkpoint)
            .unwrap()
            .verify()
            .unwrap();
    }
}

/// Batches that ask for a stop in the middle of a validation.
struct Stopping {
    inner: Arc<dyn Batches>,
    stop: Arc<Stop>,
    validated: Arc<AtomicUsize>,
}

impl Batches for Stopping {
    fn training(&self, step: u64, rows: Range<usize>) -> train::Result<Rows> {
        self.inner.training(step, rows)
    }

    fn validation(&self, index: usize, rows: Range<usize>) -> train::Result<Rows> {
        self.validated.fetch_max(index + 1, Ordering::Relaxed);
        if index == 3 {
            self.stop.ask();
        }
        self.inner.validation(0, rows)
    }

    fn num_validation_batches(&self) -> usize {
        10_000
    }
}

#[test]
fn a_validation_ends_when_the_run_is_to_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut this = three_steps("x=2,data=2", dir.path());
    (
        this.config.training.validate_every,
        this.config.training.checkpoint_every,
    ) = (2, 0);
    let (stop, validated) = (Arc::new(Stop::default()), Arc::new(AtomicUsize::new(0)));
    this.data = Arc::new(Stopping {
        inner: this.data.clone(),
        stop: stop.clone(),
        validated: validated.clone(),
    });
    for ended in of_ranks(this, |_, _| {}, stop) {
        let summary = ended.unwrap();
        assert_eq!((summary.steps, summary.validation_loss), (2, None));
        assert!(summary.stopped);
        assert!(summary.checkpoint.unwrap().ends_with("step-00000002"));
    }
    assert_eq!(validated.load(Ordering::Relaxed), 4);
}

#[test]
fn ranks_that_differ_are_named() {
    let differs = |edit: fn(&mut Run)| {
        let dir = tempfile::tempdir().unwrap();
        let this = three_steps("x=4", dir.path());
        let edit = move |rank, run: &mut Run| {
            if rank == 1 {
                edit(run);
            }
        };
        let ended = of_ranks(this, edit, Arc::default());
        let unequal = |ended: Result<Summary, Error>| match ended {
            Ok(_) => "equal".to_owned(),
            Err(Error::Unequal { rank: 1, key, .. }) => key,
            Err(error) => error.to_string(),
        };
        let mut keys: Vec<String> = ended.into_iter().map(unequal).collect();
        keys.dedup();
        keys.concat()
    };
    assert_eq!(
        differs(|run| run.config.training.batch += 8),
        "training.batch"
    );
    assert_eq!(differs(|run| run.config.seed += 1), "seed");
    assert_eq!(
        differs(|run| run.data = dataset(&run.config, b"a lazy dog ")),
        "data.content"
    );
    assert_eq!(
        differs(|run| run.config.data.path = Some("elsewhere".into())),
        "equal"
    );
}

#[test]
fn a_refused_resumption_leaves_the_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let this = three_steps("x=2", dir.path());
    let ended = of_ranks(this, |_, _| {}, Arc::default());
    let config = dir.path().join("config.toml");
    let before = fs::read_to_string(&config).unwrap();
    let mut other = three_steps("x=2", dir.path());
    edit_gpt(&mut other.config, |model| model.hidden *= 2);
    other.config.training.steps = 4;
    other.resume = Some(Resume {
        checkpoint: ended[0].as_ref().unwrap().checkpoint.clone().unwrap(),
        any_change: true,
    });
    for ended in of_ranks(other, |_, _| {}, Arc::default()) {
        assert!(matches!(ended, Err(Error::Mismatch { .. })), "{ended:?}");
    }
    assert_eq!(fs::read_to_string(&config).unwrap(), before);
}

fn steps_left(dir: &Path) -> Vec<u64> {
    let names = fs::read_dir(dir.join("checkpoints")).unwrap();
    let mut steps: Vec<u64> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| name.strip_prefix("step-").unwrap().parse().unwrap())
        .collect();
    steps.sort_unstable();
    steps
}

#[test]
fn checkpoints_stay_by_count_age_and_value() {
    let dir = tempfile::tempdir().unwrap();
    let mut this = three_steps("x=2", dir.path());
    let training = &mut this.config.training;
    (training.steps, training.checkpoint_every) = (9, 2);
    (training.validate_every, training.warmup_steps) = (2, 9);
    (training.keep_checkpoints, training.keep_every) = (1, 3);
    training.keep_best = true;
    // The rate grows until steps overshoot, so that the first validation is the best.
    training.learning_rate = 2.0;
    of_ranks(this, |_, _| {}, Arc::default());
    let records = train::metrics::read(&dir.path().join("metrics.jsonl")).unwrap();
    let losses = records
        .iter()
        .filter_map(|record: &train::metrics::Record| Some((record.step, record.val_loss?)));
    let (best, loss) = losses
        .min_by(|one, other| one.1.total_cmp(&other.1))
        .unwrap();
    assert_eq!(best, 2, "{records:?}");
    assert_eq!(steps_left(dir.path()), [2, 3, 6, 9]);
    let best = train::checkpoint::Reader::open(dir.path().join("checkpoints/step-00000002"));
    assert_eq!(best.unwrap().sections().validation_loss, Some(loss));
}

#[test]
fn a_run_resumed_from_a_checkpoint_written_behind_has_the_bits_of_the_whole_run() {
    use parallel::data::Sharding;
    for (grid, sharding) in [
        ("x=2", Sharding::None),
        ("data=2", Sharding::Gradients),
        ("x=2,pipeline=2", Sharding::None),
    ] {
        let [whole, waiting, resumed] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let mut this = three_steps(grid, whole.path());
        this.config.training.steps = 6;
        (
            this.config.training.keep_checkpoints,
            this.config.parallel.sharding,
        ) = (9, sharding);
        of_ranks(this.clone(), |_, _| {}, Arc::default());
        this.config.training.checkpoint_async = false;
        this.dir = waiting.path().to_owned();
        of_ranks(this.clone(), |_, _| {}, Arc::default());
        for step in 1..=6 {
            let [behind, waited] = [&whole, &waiting]
                .map(|run| digest_of(&run.path().join(format!("checkpoints/step-{step:08}"))));
            assert_eq!(behind, waited, "{grid}, step {step}");
        }
        this.dir = resumed.path().to_owned();
        this.resume = Some(Resume {
            checkpoint: whole.path().join("checkpoints/step-00000002"),
            any_change: false,
        });
        of_ranks(this, |_, _| {}, Arc::default());
        assert_eq!(digest_of(resumed.path()), digest_of(whole.path()), "{grid}");
        assert_eq!(steps_left(resumed.path()), [3, 4, 5, 6]);
    }
}

#[test]
fn a_batch_that_cannot_be_read_ends_the_step_that_needs_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut this = three_steps("data=2", dir.path());
    this.data = Arc::new(Watched {
        inner: this.data.clone(),
        training: |inner: &dyn Batches, step, rows| match step {
            2 => Err(Error::setting("this batch", "nothing", "rows")),
            _ => inner.training(step, rows),
        },
    });
    for ended in of_ranks(this, |_, _| {}, Arc::default()) {
        let error = ended.unwrap_err().to_string();
        assert!(error.contains("this batch"), "{error}");
    }
    // Both steps before it are kept, the second though it had asked for that batch already.
    assert_eq!(steps_left(dir.path()), [1, 2]);
    let metrics = fs::read_to_string(dir.path().join("metrics.jsonl")).unwrap();
    assert_eq!(metrics.lines().count(), 2, "{metrics}");
}

#[test]
fn a_callback_may_train_steps_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let this = three_steps("x=1", dir.path());
    let plain = ranks(1, {
        let this = this.clone();
        move |world, device| {
            let mut trainer = this
                .config
                .trainer(&this.config.context(&world, &device)?)?;
            trainer.train_until(6, &*this.data)
        }
    });
    let found = ranks(1, move |world, device| {
        let mut trainer = this
            .config
            .trainer(&this.config.context(&world, &device)?)?;
        let (mut losses, data) = (Vec::new(), &*this.data);
        trainer.fit(data, 6, &mut |trainer: &mut Trainer, done: &StepDone| {
            losses.push(done.result.loss);
            if !done.is_last {
                let batch = trainer.batch(data)?;
                losses.push(trainer.step(&batch)?.loss);
            }
            Ok(())
        })?;
        Ok(losses)
    });
    assert_eq!(found, plain);
}
