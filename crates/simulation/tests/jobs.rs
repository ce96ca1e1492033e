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

#[test]
fn jobs_end_as_they_should() {
    let first = number("FASCICLE_SEED", 0);
    let num = number("FASCICLE_SIMULATIONS", 20);
    let (begun, mut counts, mut faults) = (Instant::now(), Counts::default(), Vec::new());
    for seed in first..first + num {
        match scenario::run(seed, &mut counts) {
            Ok(held) if held.leaves_no_lock => {}
            Ok(_) => panic!("seed {seed} leaves a lock behind"),
            Err(fault) => {
                faults.push(format!(
                    "FASCICLE_SEED={seed} FASCICLE_SIMULATIONS=1: {fault}"
                ));
                if number("FASCICLE_ALL", 0) == 0 {
                    break;
                }
            }
        }
    }
    println!(
        "simulations: {counts} seconds={:.1}",
        begun.elapsed().as_secs_f64()
    );
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_seed_repeats_its_schedule() {
    for seed in 0..20 {
        let [first, second] = [(); 2].map(|()| scenario::run(seed, &mut Counts::default()));
        assert_eq!(first, second, "seed {seed}: {}", scenario::describe(seed));
    }
}
