//! Jobs of ranks under what a seed decides. `ci/simulation.sh` runs them.
#![cfg(fascicle_simulated)]

use fascicle_simulation::{counts::Counts, scenario};
use std::time::Instant;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}: found {text}, needs a number"))
    })
}

/// The first scenario that fails ends the test: it may have left locks behind.
#[test]
fn jobs_end_as_they_should() {
    let first = number("FASCICLE_SEED", 0);
    let num = number("FASCICLE_SIMULATIONS", 20);
    let (begun, mut counts) = (Instant::now(), Counts::default());
    for seed in first..first + num {
        let held = scenario::run(seed, &mut counts)
            .unwrap_or_else(|fault| panic!("FASCICLE_SEED={seed}: {fault}"));
        assert!(held.leaves_no_lock, "FASCICLE_SEED={seed}: a lock is left");
        if num == 1 {
            println!("{}, trace {:016x}", scenario::describe(seed), held.trace);
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("simulations: {counts} seconds={seconds:.1}");
}

#[test]
fn a_seed_repeats_its_schedule() {
    for seed in 0..20 {
        let [first, second] = [(); 2].map(|()| scenario::run(seed, &mut Counts::default()));
        let what = scenario::describe(seed);
        assert_eq!(first.unwrap(), second.unwrap(), "seed {seed}: {what}");
    }
}
