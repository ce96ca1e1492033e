//! Memory beyond the device: the same bits as on it, and the memory of a formula.

mod activations;
mod failing;
mod optimiser;
mod pages;

use bootstrap::local::{Options, run};
use parallel::{Context, Settings};
use std::{ops::Range, path::Path};
use tensor::MemoryKind;
use train::{
    Config, PeakMemory,
    checkpoint::{Reader, digest},
    run::settle_bits,
    trainer::scalars,
};

const CONFIG: &str = r#"
    [model]
    layers = 3
    hidden = 40
    heads = 4
    context = 16
    vocabulary = 131
    [training]
    batch = 8
    clip_norm = 0.5
    learning_rate = 0.01
    warmup_steps = 1
    [parallel]
    grid = "x=1"
"#;

/// What a run leaves behind.
#[derive(Debug)]
struct Ended {
    losses: Vec<u64>,
    sha256: String,
    /// Of the steps.
    peak: PeakMemory,
    /// The most that activations held in a step, on the rank where that is most.
    activations: usize,
    /// The most that the optimiser's state held on a device.
    state: usize,
    /// The most that an update on the host holds of its memory, by kind.
    host: Vec<usize>,
    /// Of all, from the initial values to the checkpoint.
    largest: usize,
}

fn config(edits: &[&str]) -> Config {
    testkit::edited(CONFIG, edits)
}

/// Runs these steps, after loading the checkpoint in `from`, and leaves one in `to`.
fn train(
    config: &Config,
    steps: Range<u64>,
    from: Option<&Path>,
    to: &Path,
) -> Result<Ended, String> {
    let bucket_bytes = config.settings().bucket_bytes;
    train_in_buckets(config, bucket_bytes, steps, from, to)
}

/// The same, with buckets that are smaller than a configuration allows.
fn train_in_buckets(
    config: &Config,
    bucket_bytes: usize,
    steps: Range<u64>,
    from: Option<&Path>,
    to: &Path,
) -> Result<Ended, String> {
    let (config, from, out) = (config.clone(), from.map(Path::to_owned), to.to_owned());
    let ranks = config.grid().unwrap().world_size();
    let ranks = run(Options::new(ranks), move |world| {
        let device = testkit::device(&config, world.rank())?;
        let mut config = config.clone();
        settle_bits(&mut config, device.capabilities(), None)?;
        let settings = Settings {
            bucket_bytes,
            ..config.settings()
        };
        let grid = config.grid_on(&world)?;
        let context = Context::new(world.clone(), grid, device.clone(), settings)?;
        let mut trainer = config.trainer(&context)?;
        if let Some(from) = &from {
            trainer.resume(from)?;
        }
        let before = device.memory_use().peak;
        device.reset_peak_memory();
        let mut losses = Vec::new();
        for step in steps.clone() {
            let rows = |rows: Range<usize>| {
                let tokens = |shift: usize| {
                    let all = rows
                        .clone()
                        .flat_map(|row| (0..16).map(move |at| (row, at)));
                    let token =
                        move |(row, at)| (row * 7 + (at + shift) * 3 + step as usize * 5) % 131;
                    all.map(|place| token(place) as u32).collect()
                };
                let (inputs, targets) = (tokens(0), tokens(1));
                Ok(train::data::Batch { inputs, targets }.into_rows(16))
            };
            let batch = trainer.batch_of(step, rows)?;
            losses.push(trainer.step(&batch)?.loss.to_bits());
        }
        let peak = PeakMemory::of_all(&world, &device, 0)?;
        let host = trainer.parameters().host_memory().unwrap_or_default();
        let host = MemoryKind::ALL.map(|kind| host.of(kind).peak);
        let used = device.memory_use();
        let [activations, state] =
            [MemoryKind::Activations, MemoryKind::Optimiser].map(|kind| used.of(kind).peak);
        trainer.save(&out)?;
        let largest = before.max(device.memory_use().peak);
        Ok::<_, train::Error>((losses, peak, [activations, state, largest], host))
    });
    let ranks = ranks.map_err(|failure| failure.report())?;
    let newest = Reader::open(to).unwrap();
    let scalars = scalars(&newest).unwrap();
    let sha256 = digest(&newest, &scalars).unwrap().digest.to_string();
    let most = |index: usize| ranks.iter().map(|(_, _, bytes, _)| bytes[index]).max();
    let [activations, state, largest] = [0, 1, 2].map(|index| most(index).unwrap_or(0));
    let (losses, peak, ..) = ranks[0].clone();
    let kinds = 0..MemoryKind::ALL.len();
    let of_kind = |kind: usize| ranks.iter().map(|(.., host)| host[kind]).max();
    let host = kinds.map(|kind| of_kind(kind).unwrap_or(0)).collect();
    Ok(Ended {
        losses,
        sha256,
        peak,
        activations,
        state,
        host,
        largest,
    })
}
