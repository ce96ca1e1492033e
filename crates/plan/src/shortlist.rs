//! The candidates worth simulating: those that fit the memory, the fastest estimates first.

use crate::{
    Candidate, Request, enumerate,
    estimate::{self, ANY, CostCuts, Distances, Sheet},
    threads,
};
use grid::{AxisOrder, Degrees};
use std::collections::HashMap;

/// After this many simulations, no estimate is far enough off to matter.
pub(crate) const MOST: usize = 400;

/// Variants of one grid (orders, micro-batches, recomputation and so on) that come before those of other grids.
const VARIANTS: usize = 6;

/// Candidates without stages that are simulated before any with stages.
const UNSTAGED: usize = 24;

/// The candidates worth simulating, and the numbers from which they were chosen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shortlist {
    /// The fastest estimate first, after the best of every number of stages. The best few variants of every
    /// grid come before the rest.
    pub(crate) best: Vec<Estimated>,
    /// Number of candidates that were enumerated.
    pub(crate) num_candidates: usize,
    /// Number of these that passed the memory bound.
    pub(crate) num_fitting: usize,
}

impl Shortlist {
    /// Covers everything that the request leaves open. Handles candidates grid by grid and never holds them
    /// all.
    pub(crate) fn new(request: &Request) -> Shortlist {
        let (grids, orders) = (enumerate::grids(request), enumerate::orders(request));
        let kept = MOST.div_ceil(grids.len().max(1)).max(VARIANTS);
        let cuts = CostCuts::new(&request.work);
        let found = threads::map(&grids, |degrees| {
            OfGrid::new((request, &cuts), *degrees, &orders, kept)
        });
        let sum = |count: fn(&OfGrid) -> usize| found.iter().map(count).sum();
        let (num_candidates, num_fitting) = (
            sum(|grid| grid.num_candidates),
            sum(|grid| grid.num_fitting),
        );
        let (mut first, mut rest) = (Vec::new(), Vec::new());
        for grid in found {
            let few = grid.best.len().min(VARIANTS);
            first.extend_from_slice(&grid.best[..few]);
            rest.extend_from_slice(&grid.best[few..]);
        }
        [&mut first, &mut rest]
            .into_iter()
            .for_each(|part| sort(part));
        let (mut best, others) = heads(first);
        best.extend(others);
        best.extend(rest);
        Shortlist {
            best,
            num_candidates,
            num_fitting,
        }
    }
}

/// A candidate with its estimate in seconds.
pub(crate) type Estimated = (f64, Candidate);

// Candidates of equal time have a fixed order, so that the order of the threads does not show.
fn sort(estimated: &mut [Estimated]) {
    let key = |candidate: &Candidate| {
        (
            candidate.degrees.to_string(),
            candidate.order,
            candidate.micro_batches,
        )
    };
    estimated
        .sort_by(|(one, a), (other, b)| one.total_cmp(other).then_with(|| key(a).cmp(&key(b))));
}

// First the fastest without stages, which take milliseconds to simulate; then the fastest of each number of
// stages; then the others. So no single estimate uses up the time needed to simulate its rivals.
fn heads(estimated: Vec<Estimated>) -> (Vec<Estimated>, Vec<Estimated>) {
    let mut counts = HashMap::<usize, usize>::new();
    let (mut heads, others): (Vec<_>, Vec<_>) =
        estimated.into_iter().partition(|(_, candidate)| {
            let stages = candidate.degrees.pipeline;
            let count = counts.entry(stages).or_default();
            *count += 1;
            *count <= if stages == 1 { UNSTAGED } else { 1 }
        });
    heads.sort_by_key(|(_, candidate)| candidate.degrees.pipeline > 1);
    (heads, others)
}

// The best candidates of one grid.
struct OfGrid {
    best: Vec<Estimated>,
    num_candidates: usize,
    num_fitting: usize,
}

impl OfGrid {
    fn new(
        (request, cuts): (&Request, &CostCuts<'_>),
        degrees: Degrees,
        orders: &[AxisOrder],
        kept: usize,
    ) -> OfGrid {
        let distances = Distances::new(&degrees, orders);
        let shapes = enumerate::shapes(request, degrees);
        let num_candidates = shapes.len() * distances.orders().len();
        let fits = |shape: &Candidate| estimate::fits(request, shape);
        let fitting: Vec<_> = shapes.into_iter().filter(fits).collect();
        let num_fitting = fitting.len() * distances.orders().len();
        OfGrid {
            best: best((request, cuts), &fitting, &distances, kept),
            num_candidates,
            num_fitting,
        }
    }
}

// Tries shapes in the order of their bounds over all orders of axes, until a bound is slower than all
// candidates kept.
fn best(
    (request, cuts): (&Request, &CostCuts<'_>),
    shapes: &[Candidate],
    distances: &Distances,
    kept: usize,
) -> Vec<Estimated> {
    let mut sheets = HashMap::new();
    for shape in shapes {
        sheets
            .entry(shape.micro_batches)
            .or_insert_with(|| Sheet::new(request, shape, distances, cuts));
    }
    let mut bounded: Vec<Estimated> = shapes
        .iter()
        .map(|shape| {
            (
                sheets[&shape.micro_batches].step(shape, &ANY),
                shape.clone(),
            )
        })
        .collect();
    bounded.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let mut best: Vec<Estimated> = Vec::new();
    for (bound, shape) in bounded {
        if best.len() == kept && best[kept - 1].0 <= bound {
            break;
        }
        let sheet = &sheets[&shape.micro_batches];
        let orders = distances.orders();
        best.extend(orders.map(|(order, places)| {
            let ordered = Candidate {
                order,
                ..shape.clone()
            };
            (sheet.step(&shape, places), ordered)
        }));
        best.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        best.truncate(kept);
    }
    best
}
