//! Why the planner found nothing: no grid divides the model, or none fits the memory. Also the number of
//! devices that would do.

use crate::{Candidate, Error, Request, enumerate, estimate, simulate};
use std::time::Instant;

/// Number of leanest candidates that are simulated: if they do not fit, none does.
const LEANEST: usize = 3;

/// Micro-batches in the simulations that test memory, unless stages need more.
const FEW: usize = 8;

/// Why no grid divides the model.
pub(crate) fn no_grid(request: &Request) -> Error {
    let Some(degrees) = request.grid else {
        return Error::NoGrid {
            devices: request.devices,
            batch: request.batch,
            model: request.model.describe(),
        };
    };
    let demands = request.demands(request.micro_batches.unwrap_or(1));
    match demands.check(&degrees) {
        Err(error) => Error::Grid(error),
        Ok(()) if enumerate::ways(request, &degrees).is_empty() => Error::Setting {
            setting: "context_attention",
            found: match request.context_attention {
                Some(way) => format!("{way} on {degrees}"),
                None => degrees.to_string(),
            },
            needed: "ranks that exchange heads to divide those of context and the heads of a rank of x, and equal chunks of sequences",
        },
        Ok(()) => Error::WorldSize {
            degrees,
            found: degrees.world_size().unwrap_or(0),
            needed: request.devices,
        },
    }
}

// Device counts that suit grids: whole nodes, times two and three.
fn larger_counts(request: &Request) -> Vec<usize> {
    let node = request.machine.devices_per_node;
    let most = request.machine.nodes * node;
    let powers = (0..24).map(|power| 1_usize << power);
    let mut counts: Vec<_> = powers
        .flat_map(|power| [power, 3 * power])
        .map(|nodes| nodes * node)
        .collect();
    counts.extend((0..node.ilog2()).map(|power| 1 << power));
    counts.retain(|count| *count <= most);
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// States that the model does not fit, and the smallest number of devices that would do.
pub(crate) fn out_of_reach(request: &Request) -> Error {
    let (machine, begun) = (&request.machine, Instant::now());
    // If a grid was requested, other grids with the same number of devices may do.
    let from = request.devices + usize::from(request.grid.is_none());
    let enough = larger_counts(request)
        .into_iter()
        .filter(|count| *count >= from)
        .find(|count| {
            let is_late = begun.elapsed() > request.budget;
            fits(&with_devices(request, *count), is_late)
        });
    Error::OutOfReach {
        model: request.model_name.clone(),
        devices: request.devices,
        machine: machine.name.clone(),
        device_bytes: request.memory_bytes(),
        host_bytes: request.host_memory_bytes(),
        enough,
        most: machine.nodes * machine.devices_per_node,
    }
}

// A grid with that many devices cannot be the requested one. If the requested grid had stages, others may too.
fn with_devices(request: &Request, devices: usize) -> Request {
    let staged = request.grid.is_some_and(|degrees| degrees.pipeline > 1);
    Request {
        devices,
        grid: None,
        allow_pipeline: request.allow_pipeline || staged,
        ..request.clone()
    }
}

// Whether one of the leanest candidates fits; memory does not depend on the order of axes. When the time is up, the lower
// bound of its memory decides instead of its simulation.
fn fits(request: &Request, is_late: bool) -> bool {
    let order = request.order.unwrap_or_default();
    let shapes = enumerate::grids(request)
        .into_iter()
        .flat_map(|degrees| enumerate::shapes(request, degrees));
    let bounded = shapes
        .filter(|shape| estimate::fits(request, shape))
        .map(|shape| {
            (
                estimate::memory(request, &shape),
                Candidate { order, ..shape },
            )
        });
    let mut lean: Vec<_> = bounded.collect();
    lean.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    lean.iter().take(LEANEST).any(|(_, candidate)| {
        let (request, candidate) = short(request, candidate);
        is_late || simulate(&request, &candidate, false).is_ok()
    })
}

// A shorter step with about the same memory. Micro-batches beyond those in flight need little extra memory
// (buffers that wait for their streams), and the leanest candidates have the most micro-batches.
fn short(request: &Request, candidate: &Candidate) -> (Request, Candidate) {
    let micro_batches = candidate
        .micro_batches
        .min(FEW.max(2 * candidate.degrees.pipeline));
    let batch = request.batch / candidate.micro_batches * micro_batches;
    (
        Request {
            batch,
            ..request.clone()
        },
        Candidate {
            micro_batches,
            ..candidate.clone()
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use grid::machine::Machine;

    #[test]
    fn a_fixed_grid_does_not_bind_larger_counts() {
        let (name, config) = crate::model::find("gpt-40b", &families::families()).unwrap();
        let request =
            Request::new(Machine::find("perlmutter").unwrap(), 8, name, config.model).unwrap();
        let fixed = Request {
            grid: Some("x=4,z=2".parse().unwrap()),
            ..request.clone()
        };
        let told = out_of_reach(&fixed).to_string();
        assert!(told.contains("; it needs at least "), "{told}");
        assert_eq!(told, out_of_reach(&request).to_string());
        let lopsided = Request {
            devices: 512,
            grid: Some("data=512".parse().unwrap()),
            ..request
        };
        let told = out_of_reach(&lopsided).to_string();
        assert!(
            told.ends_with("with that grid; another grid of the same size fits"),
            "{told}"
        );
    }

    #[test]
    fn a_shorter_step_has_about_the_same_memory() {
        for (grid, micro_batches) in [("x=2,z=2", 32), ("x=2,pipeline=2", 32)] {
            let model = families::gpt::published(2, 1024, 8).into();
            let request =
                Request::new(Machine::find("perlmutter").unwrap(), 4, "small", model).unwrap();
            let degrees = Some(grid.parse().unwrap());
            let request = Request {
                batch: 64,
                grid: degrees,
                micro_batches: Some(micro_batches),
                ..request
            };
            for candidate in enumerate::candidates(&request) {
                let memory = |(request, candidate): (Request, Candidate)| {
                    simulate(&request, &candidate, false).unwrap().memory() as f64
                };
                let (long, short) = (
                    (request.clone(), candidate.clone()),
                    short(&request, &candidate),
                );
                assert!(short.1.micro_batches < micro_batches);
                let share = memory(short) / memory(long);
                assert!(
                    (0.95..=1.0).contains(&share),
                    "{share} of it, {candidate:?}"
                );
            }
        }
    }

    #[test]
    fn counts_are_parts_of_a_node_and_whole_nodes() {
        let (name, config) = crate::model::find("gpt-5b", &families::families()).unwrap();
        let request =
            Request::new(Machine::find("perlmutter").unwrap(), 1, name, config.model).unwrap();
        let counts = larger_counts(&request);
        assert!(counts.starts_with(&[1, 2, 4, 8, 12, 16, 24]), "{counts:?}");
        assert_eq!(counts.last(), Some(&6144));
    }
}
