//! A mixture of token folders: every number of ranks reads the same rows, and a run that is resumed within an epoch goes on with
//! the bits of the whole run.

use hal::lock;
use std::{
    collections::BTreeMap,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};
use testkit::{Watched, config_of_bytes, digest_of, edit_gpt, new_run, ran};
use train::{
    Config,
    batches::{Batches, Values},
    data::{FolderWriter, ReadOptions, RunData, Settings, Source, Tokenizer},
    metrics::{self, Record},
    run::Resume,
};

const CONTEXT: usize = 16;
const BATCH: usize = 24;

/// A folder of text, as bytes.
fn folder(parent: &Path, name: &str, text: &str) -> PathBuf {
    let path = parent.join(name);
    let mut writer = FolderWriter::create(&path, &Tokenizer::bytes(), None, 333).unwrap();
    let tokens: Vec<u32> = text.bytes().map(u32::from).collect();
    writer.push(&tokens).unwrap();
    writer.end_document();
    writer.finish().unwrap().publish().unwrap();
    path
}

fn config(grid: &str) -> Config {
    let mut config = config_of_bytes(grid.parse().unwrap());
    edit_gpt(&mut config, |model| model.context = CONTEXT);
    let training = &mut config.training;
    (training.batch, training.micro_batches) = (BATCH, 1);
    (training.steps, training.checkpoint_every) = (6, 1);
    (training.keep_checkpoints, training.validate_every) = (9, 2);
    training.validation_batches = 2;
    config
}

/// Three sources of 20 to 90 windows: 6 steps are several epochs of the first, and less than one of the last.
fn mixture(parent: &Path, weights: [f64; 3]) -> Arc<dyn Batches> {
    let texts = [
        "to be or not to be ",
        "a quick brown fox jumps ",
        "0123456789 ",
    ];
    let sizes = [20, 50, 90];
    let sources: Vec<(Source, f64)> = (0..3)
        .map(|index| {
            let length = sizes[index] * CONTEXT;
            let text: String = texts[index].chars().cycle().take(length).collect();
            let path = parent.join(index.to_string());
            if !path.exists() {
                folder(parent, &index.to_string(), &text);
            }
            (Source::detect(&path, &[], None).unwrap(), weights[index])
        })
        .collect();
    let settings = Settings {
        context: CONTEXT,
        global_batch: BATCH,
        validation_batches: 2,
        seed: 3,
        ..Settings::default()
    };
    RunData::mixture(&sources, None, &ReadOptions::default(), &settings)
        .unwrap()
        .batches
}

/// What each row held that was asked for, by its step and its place in the batch.
type Seen = BTreeMap<(u64, usize), Vec<u32>>;

/// These batches, which note it.
fn noting(inner: Arc<dyn Batches>, seen: &Arc<Mutex<Seen>>) -> Arc<dyn Batches> {
    let seen = seen.clone();
    let training = move |inner: &dyn Batches, step: u64, rows: Range<usize>| {
        let found = inner.training(step, rows.clone())?;
        for row in rows {
            let own = inner.training(step, row..row + 1)?;
            let Values::Ids(tokens) = own.column("inputs").unwrap().clone() else {
                panic!("tokens are u32")
            };
            let before = lock(&seen).insert((step, row), tokens.clone());
            assert!(before.is_none_or(|before| before == tokens));
        }
        Ok(found)
    };
    Arc::new(Watched { inner, training })
}

fn losses(dir: &Path) -> Vec<(f64, Option<f64>)> {
    let records = metrics::read::<Record>(&dir.join("metrics.jsonl")).unwrap();
    records
        .iter()
        .map(|record| (record.loss, record.val_loss))
        .collect()
}

#[test]
fn every_number_of_ranks_reads_the_same_rows_and_has_the_same_losses() {
    let place = tempfile::tempdir().unwrap();
    let mut expected = None;
    for grid in [
        "data=1",
        "data=2",
        "data=3",
        "z=3",
        "data=8",
        "x=2,z=2,data=2",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let seen = Arc::default();
        let data = noting(mixture(place.path(), [1.0, 2.0, 0.5]), &seen);
        ran(&new_run(config(grid), data, dir.path())).unwrap();
        let (rows, losses) = (lock(&seen).clone(), losses(dir.path()));
        assert_eq!(rows.len(), 6 * BATCH, "{grid}");
        let (first_rows, first_losses) = expected.get_or_insert((rows.clone(), losses.clone()));
        assert!(rows == *first_rows, "{grid}");
        for (found, needed) in losses.iter().zip(first_losses) {
            // Sums of f32 in other orders.
            let near = |found: f64, needed: f64| (found - needed).abs() < 1e-4;
            assert!(
                near(found.0, needed.0),
                "{grid}: {found:?}, needs {needed:?}"
            );
            assert_eq!(found.1.is_some(), needed.1.is_some());
            assert!(
                near(found.1.unwrap_or(0.0), needed.1.unwrap_or(0.0)),
                "{grid}"
            );
        }
    }
}

#[test]
fn a_run_resumed_within_an_epoch_has_the_bits_of_the_whole_run() {
    let place = tempfile::tempdir().unwrap();
    let data = || mixture(place.path(), [1.0, 2.0, 0.5]);
    for grid in ["data=1", "data=2"] {
        let [whole, resumed] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let mut this = new_run(config(grid), data(), whole.path());
        ran(&this).unwrap();
        this.dir = resumed.path().to_owned();
        this.resume = Some(Resume {
            checkpoint: whole.path().join("checkpoints/step-00000003"),
            any_change: false,
        });
        ran(&this).unwrap();
        assert_eq!(digest_of(resumed.path()), digest_of(whole.path()), "{grid}");
        assert_eq!(
            losses(resumed.path())[..],
            losses(whole.path())[3..],
            "{grid}"
        );
        // Other weights are other data, wherever it lies.
        this.data = mixture(place.path(), [1.0, 2.0, 0.6]);
        let refused = ran(&this).unwrap_err().to_string();
        assert!(refused.contains("mixture of "), "{refused}");
    }
}

#[test]
fn a_run_resumed_within_an_epoch_on_another_number_of_ranks_goes_on_in_its_order() {
    let place = tempfile::tempdir().unwrap();
    let data = || mixture(place.path(), [1.0, 2.0, 0.5]);
    let mut order = None;
    for (before, after) in [(1, 2), (2, 3), (3, 8), (8, 1)] {
        let [whole, resumed] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let of = |ranks: usize, dir: &Path, checkpoint: Option<PathBuf>| {
            let seen = Arc::default();
            let mut this = new_run(config(&format!("data={ranks}")), noting(data(), &seen), dir);
            this.resume = checkpoint.map(|checkpoint| Resume {
                checkpoint,
                any_change: false,
            });
            ran(&this).unwrap();
            let seen: Seen = lock(&seen).clone();
            (seen, losses(dir))
        };
        let (rows, all) = of(before, whole.path(), None);
        // In step 3 the first source is in an epoch of its own, and the last one in its first.
        let from = whole.path().join("checkpoints/step-00000003");
        let (rest, continued) = of(after, resumed.path(), Some(from));
        let name = format!("{before} ranks, then {after}");
        assert!(rows == *order.get_or_insert(rows.clone()), "{name}");
        let expected: Seen = rows
            .into_iter()
            .filter(|((step, _), _)| *step >= 3)
            .collect();
        assert!(rest == expected, "{name}");
        assert_eq!(continued.len(), 3, "{name}");
        for (found, needed) in continued.iter().zip(&all[3..]) {
            // Sums of f32 in other orders.
            assert!(
                (found.0 - needed.0).abs() < 1e-4,
                "{name}: {found:?}, needs {needed:?}"
            );
        }
    }
}
