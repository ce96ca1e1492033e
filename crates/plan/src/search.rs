//! The best candidates: all are estimated, those that fit are simulated in the order of their estimates.

use crate::{
    Candidate, Error, Outcome, Request, Result, enumerate,
    estimate::{Estimate, estimate},
    simulate,
};
use grid::Degrees;
use std::{
    collections::HashSet,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Simulations that are made even when the time is over.
const FEWEST: usize = 12;

/// Simulations after which no estimate is far enough off to matter.
const MOST: usize = 400;

/// Variants of one grid that are simulated: orders, micro-batches, recomputation and the like.
const VARIANTS: usize = 6;

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What was asked.
    pub request: Request,
    /// Each grid's best way to run, the fastest first.
    pub best: Vec<Outcome>,
    /// Candidates that were enumerated.
    pub num_candidates: usize,
    /// Of them, those that the memory bound let through.
    pub num_fitting: usize,
    /// Of them, those that were simulated.
    pub num_simulated: usize,
    /// How long it took.
    pub took: Duration,
}

/// Looks for the fastest way to run the model on the machine.
///
/// # Cost
/// The request's budget, and the end of the simulations then under way.
/// # Errors
/// [`Error::Request`] for numbers that cannot be; [`Error::OutOfReach`] with the smallest number of devices that would
/// do when nothing fits.
pub fn search(request: &Request) -> Result<Plan> {
    request.check()?;
    let begun = Instant::now();
    let candidates = enumerate::candidates(request);
    if candidates.is_empty() {
        return Err(Error::Request(no_grid(request)));
    }
    let fitting = fitting(request, &candidates);
    let simulated = simulate_all(request, &fitting)?;
    let num_simulated = simulated.len();
    let best = best_of_each_grid(simulated);
    if best.is_empty() {
        return Err(Error::OutOfReach(out_of_reach(request)));
    }
    Ok(Plan {
        request: request.clone(),
        best,
        num_candidates: candidates.len(),
        num_fitting: fitting.len(),
        num_simulated,
        took: begun.elapsed(),
    })
}

// Those within the memory bound, the fastest estimate first, the best few variants of every grid before the rest.
fn fitting(request: &Request, candidates: &[Candidate]) -> Vec<Candidate> {
    let room = request.machine.device.memory_bytes() as f64;
    let mut fitting = estimates(request, candidates);
    fitting.retain(|(bound, _)| bound.memory <= room);
    fitting.sort_by(|(one, _), (other, _)| one.step_s.total_cmp(&other.step_s));
    let mut variants = std::collections::HashMap::<Degrees, usize>::new();
    let mut few = |candidate: &Candidate| {
        let count = variants.entry(candidate.degrees).or_default();
        *count += 1;
        *count <= VARIANTS
    };
    let (first, rest): (Vec<_>, Vec<_>) =
        fitting.into_iter().map(|(_, candidate)| candidate).partition(|candidate| few(candidate));
    first.into_iter().chain(rest).collect()
}

// On all cores: there can be a million of them.
fn estimates(request: &Request, candidates: &[Candidate]) -> Vec<(Estimate, Candidate)> {
    let each = |part: &[Candidate]| -> Vec<_> {
        part.iter().map(|candidate| (estimate(request, candidate), *candidate)).collect()
    };
    let part = candidates.len().div_ceil(num_threads()).max(1);
    thread::scope(|scope| {
        let parts: Vec<_> = candidates.chunks(part).map(|part| scope.spawn(move || each(part))).collect();
        parts
            .into_iter()
            .flat_map(|part| part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

fn num_threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(8)
}

// Takes candidates in order, on all cores, until the budget is used and one was found that fits.
fn simulate_all(request: &Request, candidates: &[Candidate]) -> Result<Vec<Outcome>> {
    let begun = Instant::now();
    let (next, found, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(None));
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let none_fits = || found.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
            let over = index >= FEWEST && begun.elapsed() > request.budget && !none_fits();
            let Some(candidate) = candidates.get(index).filter(|_| !over && index < MOST) else { return };
            match simulate(request, candidate, false) {
                Ok(outcome) => found.lock().unwrap_or_else(PoisonError::into_inner).push(outcome),
                Err(error) if is_out_of_memory(&error) => {}
                Err(error) => *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error),
            }
        }
    };
    thread::scope(|scope| (0..num_threads()).for_each(|_| drop(scope.spawn(work))));
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}

fn is_out_of_memory(error: &Error) -> bool {
    matches!(error, Error::Train(train::Error::Parallel(hal::Error::OutOfMemory { .. })))
}

fn best_of_each_grid(mut outcomes: Vec<Outcome>) -> Vec<Outcome> {
    outcomes.sort_by(|one, other| one.step_s.total_cmp(&other.step_s));
    let mut seen = HashSet::new();
    outcomes.retain(|outcome| seen.insert(outcome.candidate.degrees));
    outcomes
}

fn no_grid(request: &Request) -> String {
    let Request { devices, batch, model, .. } = request;
    if let Some(degrees) = request.grid {
        let demands = request.model.demands(*batch, request.micro_batches.unwrap_or(1), 1);
        return match demands.check(&degrees) {
            Err(error) => error.to_string(),
            Ok(()) => {
                let size = degrees.world_size().unwrap_or(0);
                format!("grid {degrees}: found {size} ranks, needed {devices}, the number of devices")
            }
        };
    }
    format!(
        "no grid of {devices} devices fits {} layers, {} heads and a batch of {batch} sequences",
        model.layers, model.heads
    )
}

// Counts of devices that grids like: whole nodes, times two and three.
fn larger_counts(request: &Request) -> Vec<usize> {
    let node = request.machine.devices_per_node;
    let most = request.machine.nodes * node;
    let powers = (0..24).map(|power| 1_usize << power);
    let mut counts: Vec<_> = powers.flat_map(|power| [power, 3 * power]).map(|nodes| nodes * node).collect();
    counts.extend((0..node.ilog2()).map(|power| 1 << power));
    counts.retain(|count| *count <= most);
    counts.sort_unstable();
    counts.dedup();
    counts
}

fn out_of_reach(request: &Request) -> String {
    let name = &request.model_name;
    let machine = &request.machine;
    let room = machine.device.memory_bytes() as f64 / f64::from(1 << 30);
    let told = format!(
        "{name} does not fit {} devices of {} with {room:.1} GiB each",
        request.devices, machine.name
    );
    let fits = |count: &usize| {
        let larger = request.with_devices(*count);
        let candidates = enumerate::candidates(&larger);
        // The leanest first: if they do not fit, none does.
        let mut lean = fitting(&larger, &candidates);
        lean.sort_by(|one, other| estimate(&larger, one).memory.total_cmp(&estimate(&larger, other).memory));
        lean.iter().take(3).any(|candidate| simulate(&larger, candidate, false).is_ok())
    };
    let free = Request { grid: None, ..request.clone() };
    let counts = larger_counts(&free).into_iter().filter(|count| *count > request.devices);
    match counts.into_iter().find(fits) {
        Some(count) => format!("{told}; the smallest count that does is {count}"),
        None => format!("{told}, nor all {} of it", machine.nodes * machine.devices_per_node),
    }
}
