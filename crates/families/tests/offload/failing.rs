//! An update on the host that fails ends all ranks with its error, and is the last.

use super::config;
use bootstrap::local::{Options, run};
use parallel::Context;
use std::{sync::Arc, time::Duration};
use tensor::ops::{CustomKernel, custom};
use train::{
    Config, Trainer,
    optimiser::{Optimiser, UpdateCall},
};

/// A rule whose second update fails.
#[derive(Clone, Copy, Debug)]
enum Broken {
    /// It panics on one of the host's threads.
    Thread,
    /// It is refused.
    Call,
}

impl Optimiser for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn num_states(&self) -> usize {
        1
    }

    fn rate(&self, _: u64) -> f64 {
        0.1
    }

    fn update(&self, call: &UpdateCall<'_>) -> parallel::Result<()> {
        match self {
            _ if call.number < 2 => Ok(()),
            Broken::Call => Err(tensor::Error::invalid("rule", "none", "one")),
            Broken::Thread => {
                let kernel =
                    CustomKernel::new("broken").on_host(|_| panic!("a thread has no more"));
                custom(&Arc::new(kernel))
                    .write(&call.pieces[0].weights)
                    .launch()
            }
        }
    }
}

fn step(config: &Config, trainer: &mut Trainer, number: u64) -> train::Result<()> {
    let rows = |rows: std::ops::Range<usize>| Ok(config.model.blank_rows(rows.len()));
    let batch = trainer.batch_of(number, rows)?;
    trainer.step(&batch).map(drop)
}

/// A run on this grid whose rank 1, or only rank, has a broken rule. `after` is given the trainer of that rank once it has failed.
fn broken_run(
    place: &str,
    (clip_norm, rule): (&str, Broken),
    grid: &str,
    after: fn(&Config, &mut Trainer) -> train::Result<()>,
) -> String {
    let edits = [
        format!("placement.optimiser = \"{place}\""),
        format!("training.clip_norm = {clip_norm}"),
        "placement.update = \"host\"".to_owned(),
        format!("parallel.grid = \"{grid}\""),
    ];
    let config = config(&edits.each_ref().map(String::as_str));
    let ranks = config.grid().unwrap().world_size();
    let options = Options::new(ranks).with_timeout(Duration::from_secs(20));
    let ended = run(options, move |world| {
        let device = testkit::device(&config, world.rank())?;
        let context = Context::new(world.clone(), config.grid()?, device, config.settings())?;
        let build = |builder: &nn::Builder| config.build(builder);
        let is_broken = world.rank() + 1 == world.size();
        let own: Box<dyn Optimiser> = match is_broken {
            true => Box::new(rule),
            false => config.training.optimiser(),
        };
        let mut trainer = Trainer::boxed(&context, build, own, config.trainer_options())?;
        let steps = (0..8).try_for_each(|number| step(&config, &mut trainer, number));
        if is_broken && steps.is_err() {
            after(&config, &mut trainer)?;
        }
        steps
    });
    ended.expect_err("the run fails").report()
}

const CASES: [(&str, &str); 4] = [
    ("host", "1.0"),
    ("host", "0.0"),
    ("files", "1.0"),
    ("files", "0.0"),
];

#[test]
fn a_failure_on_one_rank_ends_all_with_its_sentence() {
    for (place, clip_norm) in CASES {
        let report = broken_run(place, (clip_norm, Broken::Thread), "data=2", |_, _| Ok(()));
        assert!(
            report.starts_with("rank 1 failed") && report.contains("a thread has no more"),
            "{place}, {clip_norm}: {report}"
        );
    }
}

#[test]
fn no_update_follows_one_that_has_failed() {
    for (place, clip_norm) in CASES {
        let report = broken_run(
            place,
            (clip_norm, Broken::Call),
            "x=1",
            |config, trainer| step(config, trainer, 8),
        );
        assert!(
            report.contains("of which an update that failed has changed a part"),
            "{place}, {clip_norm}: {report}"
        );
    }
}
