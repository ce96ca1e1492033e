//! Runs of a small GPT in a folder of a test.

use crate::{config, edit_gpt, ranks};
use grid::Degrees;
use std::{ops::Range, path::Path, sync::Arc};
use train::{
    Config, Observer, Stop, Summary,
    batches::{Batches, Rows, ValidationSet},
    checkpoint::{Digest, Reader, digest},
    config::Precision,
    data::{Dataset, Settings, Source, TokenizerChoice},
    run::{Run, run},
    trainer::scalars,
};

/// The bytes of a text that is repeated until it is long enough, in batches as a configuration asks for.
///
/// # Panics
/// If the text is too short for its model.
pub fn dataset(config: &Config, text: &[u8]) -> Arc<dyn Batches> {
    let settings = Settings {
        context: config.model.text().map_or(1, |text| text.context),
        global_batch: config.training.batch,
        validation_batches: 2,
        ..Settings::default()
    };
    let source = Source::Embedded(text.repeat(2_000));
    let opened = Dataset::open(&source, &TokenizerChoice::Bytes, &settings);
    Arc::new(opened.unwrap().0)
}

/// Batches whose training rows a function of the test takes from others.
pub struct Watched<F> {
    /// Whose validation and fingerprint they have.
    pub inner: Arc<dyn Batches>,
    /// Returns the rows of a step, from the inner batches or not.
    pub training: F,
}

impl<F> Batches for Watched<F>
where
    F: Fn(&dyn Batches, u64, Range<usize>) -> train::Result<Rows> + Send + Sync,
{
    fn training(&self, step: u64, rows: Range<usize>) -> train::Result<Rows> {
        (self.training)(&*self.inner, step, rows)
    }

    fn validation(&self, index: usize, rows: Range<usize>) -> train::Result<Rows> {
        self.inner.validation(index, rows)
    }

    fn num_validation_batches(&self) -> usize {
        self.inner.num_validation_batches()
    }

    fn validation_sets(&self) -> Vec<ValidationSet> {
        self.inner.validation_sets()
    }

    fn fingerprint(&self) -> Option<String> {
        self.inner.fingerprint()
    }
}

/// The configuration of a model of bytes, on a grid.
pub fn config_of_bytes(grid: Degrees) -> Config {
    let mut config = config(Precision::F32);
    edit_gpt(&mut config, |model| model.vocabulary = 256);
    config.parallel.grid = grid;
    config
}

/// A new run on such data.
pub fn new_run(config: Config, data: Arc<dyn Batches>, dir: &Path) -> Run {
    Run {
        config,
        data,
        num_tokens: None,
        tokenizer: None,
        dir: dir.to_owned(),
        resume: None,
        init: None,
        restart: false,
        trace_step: None,
        peak_flop_per_s: None,
    }
}

/// A new run of a model of bytes, with this configuration.
pub fn run_of_bytes(config: Config, dir: &Path) -> Run {
    let data = dataset(&config, b"a quick brown fox ");
    new_run(config, data, dir)
}

/// Runs it on threads, and returns what each rank returns.
///
/// # Errors
/// Of a rank.
pub fn ran(this: &Run) -> train::Result<Vec<Summary>> {
    struct Silent;
    impl Observer for Silent {}

    let _lock = this.prepare()?;
    let (num_ranks, this) = (this.config.grid()?.world_size(), this.clone());
    let ended = ranks(num_ranks, move |world, device| {
        Ok(run(&world, &device, &this, &Silent, &Stop::default()))
    });
    ended.into_iter().collect()
}

/// The step of a checkpoint, and the digest of its state; of the newest for the folder of a run.
///
/// # Panics
/// If it is damaged.
pub fn digest_of(checkpoint: &Path) -> (u64, Digest) {
    let reader = Reader::open(checkpoint).unwrap();
    reader.verify().unwrap();
    let digest = digest(&reader, &scalars(&reader).unwrap()).unwrap();
    (reader.step(), digest.digest)
}
