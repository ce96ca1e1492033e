//! Training from your own program: a configuration, data, a grid, and the summary of the run. It runs on four
//! threads, or on as many processes as mpirun started.
//!
//! `cargo run --release --example 08_train`

use fascicle::families::GptConfig;
use fascicle::launch;
use fascicle::prelude::*;
use fascicle::train::{
    Config, Observer, Stop, Summary,
    data::{Dataset, Settings as DataSettings, Source, TokenizerChoice},
    metrics::Record,
    run::{Run, run},
};
use std::sync::Arc;

struct Print;

impl Observer for Print {
    fn step(&self, record: &Record) {
        if record.step.is_multiple_of(20) {
            println!("step {:>3}: loss {:.3}", record.step, record.loss);
        }
    }
}

fn main() -> fascicle::Result<()> {
    let model = GptConfig {
        layers: 2,
        hidden: 32,
        heads: 2,
        context: 32,
        vocabulary: 256,
        ..GptConfig::default()
    };
    let mut config = Config::new(model.into());
    config.training.steps = 80;
    config.training.batch = 48;
    config.training.checkpoint_every = 0;
    let ranks = launch::num_processes().unwrap_or(4);
    config.parallel.grid = match ranks {
        4 => "x=2,pipeline=2".parse()?,
        data => Degrees {
            data,
            ..Degrees::default()
        },
    };

    let source = Source::Embedded(include_bytes!("08_train.rs").repeat(4));
    let settings = DataSettings {
        context: 32,
        global_batch: 48,
        validation_batches: 2,
        ..DataSettings::default()
    };
    let (data, tokenizer) = Dataset::open(&source, &TokenizerChoice::Bytes, &settings)?;
    // The same for all processes.
    let dir = std::env::temp_dir().join("fascicle-08-train");
    let this = Run {
        config,
        num_tokens: Some([data.num_training_tokens(), data.num_validation_tokens()]),
        data: Arc::new(data),
        tokenizer: Some(tokenizer),
        dir: dir.clone(),
        resume: None,
        init: None,
        restart: false,
        trace_step: None,
        peak_flop_per_s: None,
    };
    let lock = match launch::is_first() {
        true => {
            std::fs::remove_dir_all(&dir).ok();
            Some(this.prepare()?)
        }
        false => None,
    };

    let stop = Arc::new(Stop::default());
    let ranks = launch::ranks(
        ranks,
        move |world, device| -> fascicle::train::Result<Summary> {
            world.everyone().barrier()?;
            run(world, device, &this, &Print, &stop)
        },
    );
    let summary = ranks?.swap_remove(0);
    launch::say(&format!(
        "loss {:.3}, validation {:.3?}, checkpoint {:?}",
        summary.loss, summary.validation_loss, summary.checkpoint
    ));
    assert!(summary.loss < 4.0, "it starts at ln 256 = 5.55");
    drop(lock);
    if launch::is_first() {
        std::fs::remove_dir_all(dir)?;
    }
    Ok(())
}
