//! A run within a limit of memory.

use bootstrap::local::{Options, run};
use fascicle_families::families;
use parallel::Batch;
use train::{Config, PeakMemory, Trainer};

const CONFIG: &str = r#"
    [model]
    layers = 2
    hidden = 64
    heads = 4
    context = 32
    vocabulary = 512
    [training]
    batch = 8
    [parallel]
    grid = "z=2,pipeline=2"
"#;

/// Losses and the largest peak of two steps on four ranks, or the report of the failure.
fn train(limit: Option<usize>) -> Result<(Vec<u64>, usize), String> {
    let ranks = run(Options::new(4), move |world| {
        let mut config = Config::parse(CONFIG, &families())?;
        config.device.memory_limit = limit;
        let device = testkit::device(&config, world.rank())?;
        let context = config.context(&world, &device)?;
        let mut trainer = config.trainer(&context)?;
        let mut losses = Vec::new();
        for step in 0..2 {
            losses.push(
                trainer
                    .step(&batch(&trainer, &config, step)?)?
                    .loss
                    .to_bits(),
            );
        }
        let peak = PeakMemory::of_all(&world, &device, 0)?;
        Ok::<_, train::Error>((losses, peak.bytes))
    });
    let ranks = ranks.map_err(|failure| failure.report())?;
    assert!(ranks.iter().all(|rank| *rank == ranks[0]));
    Ok(ranks[0].clone())
}

fn batch(trainer: &Trainer, config: &Config, step: u64) -> train::Result<Batch> {
    trainer.batch_of(step, |rows| Ok(config.model.blank_rows(rows.len())))
}

#[test]
fn a_run_ends_at_its_need_and_fails_one_byte_below_on_every_rank() {
    let (losses, need) = train(None).unwrap();
    assert_eq!(train(Some(need)).unwrap(), (losses, need));
    let report = train(Some(need - 1)).unwrap_err();
    for part in [
        "out of memory",
        "free",
        "in use: weights",
        "0 B cached",
        "rank 0",
        "rank 1",
        "rank 2",
        "rank 3",
    ] {
        assert!(report.contains(part), "lacks `{part}`: {report}");
    }
}
