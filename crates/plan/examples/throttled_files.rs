//! Steps on this host whose files are as slow as stated, for choices of what segments keep: measured, and simulated.
//!
//! `cargo run --release -p fascicle-plan --example throttled_files -- MACHINE GBPS`, with a description of this host that
//! `fascicle bench --save MACHINE` has written, and GB/s of the files.

use bootstrap::World;
use fascicle_plan::memory::{MemoryChoice, Tried, in_words, settle};
use grid::machine::{Machine, Quantity};
use offload::{Disk, FileSystem, Scratch, SharedDisk};
use parallel::memory::{ActivationMemory, SegmentMemory};
use std::{
    error::Error,
    io,
    ops::Range,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tensor::Device;
use train::{
    Config, Trainer,
    config::{MemoryMode, PlaceKind},
};

/// Steps of which the median is printed, after the first ones, which allocate.
const STEPS: usize = 7;
const WARM_UP: usize = 2;

/// A file system whose files move this many bytes per second.
#[derive(Debug)]
struct Throttled(f64);

#[derive(Debug)]
struct ThrottledFile(Box<dyn Scratch>, f64);

impl Disk for Throttled {
    fn create(&self, folder: &Path) -> io::Result<Box<dyn Scratch>> {
        Ok(Box::new(ThrottledFile(FileSystem.create(folder)?, self.0)))
    }
}

impl ThrottledFile {
    // What the file system took counts.
    fn slowed<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = work();
        let due = Duration::from_secs_f64(bytes as f64 / self.1);
        thread::sleep(due.saturating_sub(begun.elapsed()));
        done
    }
}

impl Scratch for ThrottledFile {
    fn reserve(&self, range: Range<u64>) -> io::Result<()> {
        self.0.reserve(range)
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.slowed(bytes.len(), || self.0.read(bytes, offset))
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.slowed(bytes.len(), || self.0.write(bytes, offset))
    }
}

fn config() -> Result<Config, Box<dyn Error>> {
    let text = r#"
        [model]
        layers = 6
        hidden = 128
        heads = 4
        context = 128
        vocabulary = 512
        [training]
        batch = 8
        micro_batches = 1
        reproducible = "grid"
        [placement]
        piece_kib = 1024
        [parallel]
        grid = "x=1"
    "#;
    Ok(Config::parse(text, &families::families())?)
}

/// Seconds of a step, and the most bytes that the device held.
fn measured(config: &Config, memory: ActivationMemory) -> Result<(f64, usize), Box<dyn Error>> {
    let options = hal::OpenOptions {
        settings: config.device_settings(),
        ..hal::OpenOptions::default()
    };
    let device = Device::new((cpu::driver().open)(options)?)?;
    let context = config.context(&World::alone(), &device)?;
    let build = |builder: &nn::Builder| config.model.build(builder);
    let options = train::trainer::Options {
        memory,
        ..config.trainer_options()
    };
    let mut trainer = Trainer::boxed(&context, build, config.training.optimiser(), options)?;
    let mut seconds = Vec::new();
    for step in 0..WARM_UP + STEPS {
        let rows = |rows: Range<usize>| Ok(config.model.blank_rows(rows.len()));
        let batch = trainer.batch_of(step as u64, rows)?;
        let begun = Instant::now();
        trainer.step(&batch)?;
        seconds.push(begun.elapsed().as_secs_f64());
    }
    let mut steady = seconds.split_off(WARM_UP);
    steady.sort_by(f64::total_cmp);
    Ok((steady[STEPS / 2], device.memory_use().peak))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let machine = arguments.next().unwrap_or_else(|| "laptop".into());
    let gbps: f64 = arguments.next().map_or(Ok(0.2), |text| text.parse())?;
    let mut machine = Machine::find(&machine)?;
    machine.device.files_gbps = Some(Quantity::measured(gbps, "throttled by this program"));
    let disk = SharedDisk(Arc::new(Throttled(gbps * 1e9)));

    let config = config()?;
    let (_, needed) = measured(&config, ActivationMemory::default())?;
    let mut capped = config.clone();
    capped.device.memory_limit = Some(needed * 3 / 5);
    capped.training.memory = MemoryMode::Auto;
    let choice = settle(&mut capped, &machine)?.ok_or("nothing was settled")?;
    println!(
        "{} MiB of the {} MiB that all segments need, files of {gbps} GB/s",
        (needed * 3 / 5) >> 20,
        needed >> 20
    );
    println!(
        "{:<44} {:>10} {:>10} {:>9}",
        "", "measured", "simulated", "MiB"
    );
    for (name, tried) in rows(&choice, &config)? {
        let memory = ActivationMemory {
            disk: disk.clone(),
            ..config.activation_memory()
        };
        let kinds = config.work()?;
        let memory = memory.with_segments(&tried.segments, &kinds.kinds());
        let (seconds, bytes) = measured(&config, memory)?;
        println!(
            "{name:<44} {:>7.1} ms {:>7.1} ms {:>9.1}",
            seconds * 1e3,
            tried.step_s * 1e3,
            bytes as f64 / f64::from(1 << 20)
        );
    }
    Ok(())
}

fn rows<'a>(
    choice: &'a MemoryChoice,
    config: &Config,
) -> Result<Vec<(String, &'a Tried)>, Box<dyn Error>> {
    let files = |recompute| SegmentMemory {
        recompute,
        place: PlaceKind::Files,
    };
    let pure = [
        ("all stay", SegmentMemory::STAYS),
        ("all recomputed", SegmentMemory::RECOMPUTED),
        ("all in files", files(false)),
        ("all recomputed with inputs in files", files(true)),
    ];
    let pure = pure.map(|(name, all)| Some((name.to_owned(), choice.pure(all)?)));
    let chosen = in_words(&config.work()?, &choice.chosen.segments);
    let chosen = (chosen, &choice.chosen);
    Ok(pure.into_iter().flatten().chain([chosen]).collect())
}
