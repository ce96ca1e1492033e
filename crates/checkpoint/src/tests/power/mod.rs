//! Power cuts, simulated: whatever a cut, a kill, a refusal or a full disk leaves, no retained checkpoint is lost, none that is
//! not whole is read as whole, and the next writer succeeds.
//!
//! `model` is a file system that knows what was synced, `disk` the [`Disk`](crate::disk::Disk) on it, `scenario` what happens on it
//! and what must hold, and `planted` the faults that show that the scenarios find some. `FASCICLE_POWER_CUTS=N` runs N scenarios
//! instead of 100, and `FASCICLE_SEED=S` begins with those of seed S: with N = 1 it repeats one.

mod counts;
mod disk;
mod model;
mod planted;
mod random;
mod scenario;
mod state;

use counts::Counts;
use planted::Plant;
use scenario::run;
use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Instant,
};

/// The scenarios within which every planted fault is found.
const ENOUGH: u64 = 400;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}: found {text}, needs a number"))
    })
}

/// Runs scenarios on all processors; returns their faults too, each with the seed that repeats it.
fn run_all(first: u64, num: u64) -> (Counts, Vec<String>) {
    let seeds = AtomicU64::new(first);
    let done = Mutex::new((Counts::default(), Vec::new()));
    let work = || {
        let (mut counts, mut faults) = (Counts::default(), Vec::new());
        loop {
            let seed = seeds.fetch_add(1, Ordering::Relaxed);
            if seed >= first + num {
                break;
            }
            if let Err(fault) = run(seed, Plant::Nothing, &mut counts) {
                faults.push(format!(
                    "FASCICLE_SEED={seed} FASCICLE_POWER_CUTS=1: {fault}"
                ));
            }
        }
        let mut done = done.lock().unwrap();
        done.0.add(&counts);
        done.1.extend(faults);
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    done.into_inner().unwrap()
}

#[test]
fn no_power_cut_loses_a_checkpoint() {
    let first = number("FASCICLE_SEED", 0);
    let num = number("FASCICLE_POWER_CUTS", 100);
    let start = Instant::now();
    let (counts, faults) = run_all(first, num);
    // All of them: one fault of the writer shows in several ways.
    assert!(
        faults.is_empty(),
        "{} of {num} scenarios:\n{}",
        faults.len(),
        faults.join("\n")
    );
    println!(
        "power cuts: {counts} seconds={:.1}",
        start.elapsed().as_secs_f64()
    );
}

#[test]
fn planted_faults_are_found() {
    for plant in Plant::ALL {
        let found = (0..ENOUGH).find_map(|seed| {
            let fault = run(seed, plant, &mut Counts::default()).err()?;
            Some((seed, fault))
        });
        let (seed, fault) = found.unwrap_or_else(|| panic!("{plant:?} is not found"));
        println!("{plant:?}: seed {seed}: {fault}");
    }
}
