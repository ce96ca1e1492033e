//! The extra cost of collectives in training steps, compared with collectives timed back to back, where ranks
//! leave no core idle.
//!
//! A step is run, and also simulated on the machine as measured so far. The extra time of the real step is
//! distributed evenly over its collectives, because there late ranks, and streams waiting for a core, hold up
//! the others.

use super::{MOST_RANKS, step};
use crate::Registry;
use crate::failure::{Failure, Outcome};
use grid::{
    Degrees,
    machine::{Lateness, Machine},
};
use hal::Driver;
use plan::{Candidate, Request, simulate};

/// The steps are tensor-parallel, so that ranks meet often.
const GRIDS: [[usize; 3]; 3] = [[2, 1, 1], [2, 1, 2], [2, 2, 2]];

/// Microseconds added to each collective in order to count those that delay the step.
const PROBE_US: f64 = 10.0;

/// Fills in the extra cost of collectives, for each number of ranks that occupies all of `cores`.
pub(super) fn measure(
    registry: &Registry,
    driver: Driver,
    cores: usize,
    machine: &mut Machine,
) -> Outcome {
    for [x, y, z] in GRIDS {
        let ranks = x * y * z;
        if (cores..=MOST_RANKS).contains(&ranks) {
            let (request, candidate) = step::of(
                &registry.families,
                machine,
                Degrees {
                    x,
                    y,
                    z,
                    ..Degrees::default()
                },
            )?;
            let measured_s = step::seconds(driver, candidate.config(&request))?;
            machine
                .links
                .late
                .push(lateness(&request, &candidate, ranks, measured_s)?);
        }
    }
    Ok(())
}

fn lateness(
    request: &Request,
    candidate: &Candidate,
    ranks: usize,
    measured_s: f64,
) -> Outcome<Lateness> {
    let at = |us: f64| {
        let mut machine = (*request.machine).clone();
        machine.links.late = vec![Lateness {
            ranks,
            points: vec![[f64::MIN_POSITIVE, us]],
        }];
        let request = Request {
            machine: machine.into(),
            ..request.clone()
        };
        simulate(&request, candidate, false).map_err(Failure::run)
    };
    let (punctual, late) = (at(0.0)?, at(PROBE_US)?);
    let collectives = (late.step_s - punctual.step_s) / (PROBE_US * 1e-6);
    let compute_s = punctual.slowest().breakdown.compute_s();
    let each_us = |seconds: f64| (seconds.max(0.0) / collectives.max(1.0)) * 1e6;
    Ok(Lateness {
        ranks,
        points: vec![[each_us(compute_s), each_us(measured_s - punctual.step_s)]],
    })
}
