//! Finds the best candidates: estimates all of them, and simulates those that fit in the order of their
//! estimates.

use crate::{
    Candidate, Error, Outcome, Request, Result, SegmentChoices,
    memory::{self, MemoryChoice},
    reach,
    shortlist::{Estimated, MOST, Shortlist},
    simulate, threads,
};
use grid::machine::Machine;
use hal::lock::{into_inner, lock};
use parallel::memory::SegmentMemory;
use std::{
    collections::HashSet,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use train::{ModelConfig, config::MemoryMode};

/// Number of simulations that are made even when the time is up, unless it has been up for long: a step of a model of thousands of
/// segments takes a minute to simulate.
const FEWEST: usize = 12;
const LONG: u32 = 10;

/// An estimate is worth a simulation up to this multiple of the fastest simulated step. The estimates we tried
/// lie within 12 % of the simulated time.
const MARGIN: f64 = 1.15;

/// Number of grids that are simulated however slow they are, because the report shows them.
pub(crate) const SHOWN: usize = 10;

/// Number of grids whose segments get a choice each, if the request asks for it.
const MIXED: usize = 4;

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The request.
    pub request: Request,
    /// The best way to run on each grid, the fastest first.
    pub best: Vec<Outcome>,
    /// Number of candidates that were enumerated.
    pub num_candidates: usize,
    /// Number of these that passed the memory bound.
    pub num_fitting: usize,
    /// Number of these that were simulated.
    pub num_simulated: usize,
    /// What was chosen for the segments of the best one, if the request asks for it.
    pub memory: Option<MemoryChoice>,
    /// Duration of the search.
    pub took: Duration,
}

/// Plans the training of any model on `devices` of a machine, with pipelines allowed and this library's
/// defaults. The model is a [`Blueprint`](train::blueprint::Blueprint), or the model of a configuration.
///
/// # Errors
/// As [`Request::new`] and [`search`].
pub fn plan(model: impl Into<ModelConfig>, machine: &Machine, devices: usize) -> Result<Plan> {
    let model = model.into();
    let name = model.family().to_owned();
    search(&Request {
        allow_pipeline: true,
        ..Request::new(machine.clone(), devices, name, model)?
    })
}

/// Searches for the fastest way to run the model on the machine. If nothing fits its devices, what the request leaves open may be
/// beyond them.
///
/// # Cost
/// The request's budget or the first dozen simulations, but no more than ten times the budget, plus the end of the simulations then in
/// progress.
/// # Errors
/// Those of [`Request::check`]; [`Error::Grid`], [`Error::WorldSize`] or [`Error::NoGrid`] if no grid divides the
/// model; [`Error::OutOfReach`] with the smallest sufficient number of devices if nothing fits the memory;
/// [`Error::Train`] or [`Error::Simulation`] if every simulation fails for another reason.
pub fn search(request: &Request) -> Result<Plan> {
    request.check()?;
    let request = &request.with_open_activations();
    let plan = search_as_asked(request)?;
    if !plan.best.is_empty() {
        return segment_by_segment(plan);
    }
    let beyond = request.beyond();
    let wider = beyond.as_ref().map(search_as_asked).transpose()?;
    match wider.filter(|plan| !plan.best.is_empty()) {
        Some(plan) => segment_by_segment(plan),
        None => Err(reach::out_of_reach(beyond.as_ref().unwrap_or(request))),
    }
}

fn search_as_asked(request: &Request) -> Result<Plan> {
    let begun = Instant::now();
    let shortlist = Shortlist::new(request);
    if shortlist.num_candidates == 0 {
        return Err(reach::no_grid(request));
    }
    let simulated = simulate_all(request, &shortlist.best)?;
    let num_simulated = simulated.len();
    let best = best_of_each_grid(simulated);
    Ok(Plan {
        request: request.clone(),
        best,
        num_candidates: shortlist.num_candidates,
        num_fitting: shortlist.num_fitting,
        num_simulated,
        memory: None,
        took: begun.elapsed(),
    })
}

// If the request asks for it, the best few grids with a choice for each segment, where that is faster.
fn segment_by_segment(mut plan: Plan) -> Result<Plan> {
    let begun = Instant::now();
    let request = plan.request.clone();
    if request.memory == MemoryMode::Stated {
        return Ok(plan);
    }
    let mut choices = Vec::new();
    for outcome in plan.best.iter_mut().take(MIXED) {
        if !choices.is_empty() && begun.elapsed() > request.budget {
            break;
        }
        let of = |segments: &[SegmentMemory]| Candidate {
            memory: SegmentChoices::Each(segments.into()),
            ..outcome.candidate.clone()
        };
        let config = |segments: &[SegmentMemory]| of(segments).config(&request);
        let choice = memory::choose(&request, &config)?;
        plan.num_simulated += choice.num_simulated;
        if choice.chosen.step_s < outcome.step_s {
            *outcome = simulate(&request, &of(&choice.chosen.segments), false)?;
        }
        choices.push((outcome.candidate.degrees, choice));
    }
    plan.best = best_of_each_grid(plan.best);
    let best = plan.best.first().map(|best| best.candidate.degrees);
    let of_best = choices
        .into_iter()
        .find(|(degrees, _)| Some(*degrees) == best);
    plan.memory = of_best.map(|(_, choice)| choice);
    plan.took += begun.elapsed();
    Ok(plan)
}

// Simulates candidates in order, on all cores, until one has been found that fits and either no estimate
// promises more or the budget is spent.
fn simulate_all(request: &Request, candidates: &[Estimated]) -> Result<Vec<Outcome>> {
    let begun = Instant::now();
    let (next, found, failed) = (
        AtomicUsize::new(0),
        Mutex::new(Vec::new()),
        Mutex::new(None),
    );
    let grids: HashSet<_> = candidates
        .iter()
        .map(|(_, candidate)| candidate.degrees)
        .collect();
    let shown = SHOWN.min(grids.len());
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((estimate, candidate)) = candidates.get(index).filter(|_| index < MOST) else {
                return;
            };
            let spent = begun.elapsed();
            let late = spent > request.budget
                && (index >= FEWEST || spent > request.budget.saturating_mul(LONG));
            if late && !lock(&found).is_empty() {
                return;
            }
            if is_hopeless(&lock(&found), *estimate, candidate, shown) {
                continue;
            }
            match simulate(request, candidate, false) {
                Ok(outcome) => lock(&found).push(outcome),
                Err(error) if is_out_of_memory(&error) => {}
                Err(error) => *lock(&failed) = Some(error),
            }
        }
    };
    thread::scope(|scope| (0..threads::count()).for_each(|_| drop(scope.spawn(work))));
    let found = into_inner(found);
    match into_inner(failed) {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}

// Whether a candidate cannot be the fastest and the table of grids is full without it. Estimates of pipelines
// omit waits and are low, so they count as lower bounds.
fn is_hopeless(found: &[Outcome], estimate: f64, candidate: &Candidate, shown: usize) -> bool {
    let margin = if candidate.degrees.pipeline > 1 {
        1.0
    } else {
        MARGIN
    };
    let fastest = found
        .iter()
        .map(|outcome| outcome.step_s)
        .fold(f64::INFINITY, f64::min);
    let grids = || {
        found
            .iter()
            .map(|outcome| outcome.candidate.degrees)
            .collect::<HashSet<_>>()
            .len()
    };
    estimate > margin * fastest && grids() >= shown
}

pub(crate) fn is_out_of_memory(error: &Error) -> bool {
    matches!(
        error,
        Error::Train(train::Error::Parallel(hal::Error::OutOfMemory { .. }))
    )
}

fn best_of_each_grid(mut outcomes: Vec<Outcome>) -> Vec<Outcome> {
    outcomes.sort_by(|one, other| one.step_s.total_cmp(&other.step_s));
    let mut seen = HashSet::new();
    outcomes.retain(|outcome| seen.insert(outcome.candidate.degrees));
    outcomes
}
