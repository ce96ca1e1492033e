//! The fastest choice for a model's segments within a capacity, by simulation.
//!
//! The simulator judges the pure choices, in which all segments do the same, and mixed ones. Mixed ones come from frontiers in
//! closed form: for each of several sets of allowed choices, bisection finds the point with the most bytes that a simulated stage
//! can hold. At last single segments of the best one are changed. So what is chosen is never slower than a pure choice.

use super::{
    costs::{self, Links, SegmentCost},
    frontier::{Point, frontier},
    words::in_words,
};
use crate::{
    Error, Request, Result,
    search::is_out_of_memory,
    simulate::{self, StandIn},
    threads,
};
use hal::lock::{into_inner, lock};
use parallel::memory::{PlaceKind, SegmentMemory};
use std::{collections::HashSet, sync::Mutex, time::Instant};
use train::Config;

/// Changes of single segments that are simulated at the end.
const MOST_CHANGES: usize = 24;

/// A choice for each segment, with its simulated step.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// What each segment does.
    pub segments: Vec<SegmentMemory>,
    /// Seconds of a step.
    pub step_s: f64,
    /// The most bytes that each stage's rank holds.
    pub bytes: Vec<usize>,
    /// Bytes that it may hold.
    pub capacity: Vec<usize>,
    /// Segments in each part of the pipeline; empty if there is one part.
    pub depths: Vec<usize>,
    /// Whether every stage holds at most the capacity.
    pub fits: bool,
}

impl Tried {
    /// Bytes of the fullest stage's rank.
    pub fn most_bytes(&self) -> usize {
        self.bytes.iter().copied().max().unwrap_or(0)
    }
}

/// What was chosen, and from what.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryChoice {
    /// The fastest of all that fit.
    pub chosen: Tried,
    /// The choices in which all segments do the same.
    pub pure: Vec<(SegmentMemory, Tried)>,
    /// Number of choices that were simulated.
    pub num_simulated: usize,
    words: String,
}

impl MemoryChoice {
    /// The choice in words, as in `attention recomputed, mlp in files`.
    pub fn words(&self) -> &str {
        &self.words
    }

    /// The simulated step in which all segments do this.
    pub fn pure(&self, all: SegmentMemory) -> Option<&Tried> {
        let found = self.pure.iter().find(|(choice, _)| *choice == all);
        found.map(|(_, tried)| tried)
    }
}

/// Chooses for the segments of the request's model what gives the fastest simulated step within the capacity, which is the request's
/// limit of memory or the machine's memory. `config` makes the configuration of a step from the choice of each segment.
///
/// # Cost
/// About 50 simulations, or fewer if the request's budget is spent.
/// # Errors
/// [`Error::Capacity`] with the numbers if no choice fits; those of a simulation.
pub fn choose(
    request: &Request,
    config: &(dyn Fn(&[SegmentMemory]) -> Config + Sync),
) -> Result<MemoryChoice> {
    let judge = Judge {
        request,
        config,
        begun: Instant::now(),
        tried: Mutex::default(),
    };
    let allowed = allowed(request);
    let simulated = threads::map(&allowed, |all| (*all, judge.step(judge.of_all(*all))));
    let mut pure = Vec::new();
    for (all, tried) in simulated {
        pure.push((all, tried?));
    }
    pure.sort_by_key(|(all, _)| allowed.iter().position(|other| other == all));
    let stays = pure[0].1.clone();
    if !stays.fits {
        judge.mix(&pure, &allowed)?;
        judge.change(&stays, &allowed)?;
    }
    let tried = into_inner(judge.tried);
    let num_simulated = tried.len();
    let fitting = tried.into_iter().filter(|tried| tried.fits);
    // Of equal ones the first stays closest to keeping everything.
    let chosen = fitting.min_by(|one, other| one.step_s.total_cmp(&other.step_s));
    let Some(chosen) = chosen else {
        return Err(cannot(&stays, &pure));
    };
    let words = in_words(&request.work, &chosen.segments);
    Ok(MemoryChoice {
        chosen,
        pure,
        num_simulated,
        words,
    })
}

/// The places where activations of a job may be. On hosts, their memory is not beyond the device, and files count where a
/// description says how fast they are.
pub(crate) fn places(request: &Request) -> Vec<PlaceKind> {
    let offers = |place: &PlaceKind| match place {
        PlaceKind::Device => true,
        PlaceKind::Host => !request.is_on_hosts(),
        PlaceKind::Files => request.machine.device.files_gbps.is_some(),
    };
    PlaceKind::ALL.into_iter().filter(offers).collect()
}

// The choices that the machine and the model offer; keeping everything is the first.
fn allowed(request: &Request) -> Vec<SegmentMemory> {
    let may_recompute = !request.work.recomputed.is_empty();
    let of_place = |place| {
        let choices = [false, true].map(|recompute| SegmentMemory { recompute, place });
        choices
            .into_iter()
            .filter(move |choice| may_recompute || !choice.recompute)
    };
    places(request).into_iter().flat_map(of_place).collect()
}

// The stage that lacks most, with the choice that takes least.
fn cannot(stays: &Tried, pure: &[(SegmentMemory, Tried)]) -> Error {
    let lack = |tried: &Tried| {
        let stages = tried.bytes.iter().zip(&tried.capacity).enumerate();
        let lacks = stages.map(|(stage, (bytes, room))| (bytes.saturating_sub(*room), stage));
        lacks.max().unwrap_or_default()
    };
    let least = pure
        .iter()
        .map(|(_, tried)| tried)
        .min_by_key(|tried| lack(tried));
    let least = least.unwrap_or(stays);
    let (_, stage) = lack(least);
    Error::Capacity {
        stage,
        capacity: least.capacity[stage],
        least: least.bytes[stage],
        stays: stays.bytes[stage],
    }
}

// The most bytes that each stage's rank holds.
fn peaks(step: &simulate::Step) -> Vec<usize> {
    step.stages.iter().map(|stage| stage.memory.peak).collect()
}

struct Judge<'a> {
    request: &'a Request,
    config: &'a (dyn Fn(&[SegmentMemory]) -> Config + Sync),
    begun: Instant,
    tried: Mutex<Vec<Tried>>,
}

impl Judge<'_> {
    fn of_all(&self, all: SegmentMemory) -> Vec<SegmentMemory> {
        let segments = self.request.work.segments.iter();
        let of = |recomputed: bool| SegmentMemory {
            recompute: all.recompute && recomputed,
            ..all
        };
        segments.map(|segment| of(segment.recomputed)).collect()
    }

    fn step(&self, segments: Vec<SegmentMemory>) -> Result<Tried> {
        if let Some(known) = lock(&self.tried)
            .iter()
            .find(|tried| tried.segments == segments)
        {
            return Ok(known.clone());
        }
        let again = segments.iter().filter(|segment| segment.recompute).count();
        let all = self
            .request
            .work
            .segments
            .iter()
            .filter(|segment| segment.recomputed);
        let recomputes_all = again > 0 && again == all.count();
        let costs = simulate::costs(self.request, recomputes_all);
        let config = (self.config)(&segments);
        let simulated = |costs, stand_in| {
            simulate::simulate_config(self.request, config.clone(), (stand_in, false), costs)
        };
        let free = simulated(costs.clone().unbounded(), StandIn::First)?;
        let mut bytes = peaks(&free);
        if config.parallel.grid.x * config.parallel.grid.y > 1 {
            let last = peaks(&simulated(costs.clone().unbounded(), StandIn::Last)?);
            bytes
                .iter_mut()
                .zip(last)
                .for_each(|(most, other)| *most = other.max(*most));
        }
        let beside: Vec<usize> = free.stages.iter().map(|stage| self.beside(stage)).collect();
        let machine = self.request.machine.device.memory_bytes();
        let room = |beside: &usize| {
            let all = machine.saturating_sub(*beside);
            self.request
                .memory_limit
                .map_or(all, |limit| limit.min(all))
        };
        let capacity: Vec<usize> = beside.iter().map(room).collect();
        let mut tried = Tried {
            fits: bytes
                .iter()
                .zip(&capacity)
                .all(|(bytes, room)| bytes <= room),
            step_s: free.seconds(),
            bytes,
            capacity,
            depths: free.depths,
            segments,
        };
        if tried.fits {
            // Within a limit, a device empties its cache where it lacks room, which takes time. Blocks are rounded up by at most an
            // eighth, that of the copy too.
            let most = beside.into_iter().max().unwrap_or(0);
            let most = most + most / 8 + 4096;
            let limit = self
                .request
                .memory_limit
                .map(|limit| limit.saturating_add(most));
            match simulated(costs.memory_limit(limit), StandIn::First) {
                Ok(step) => tried.step_s = step.seconds(),
                Err(error) if is_out_of_memory(&error) => tried.fits = false,
                Err(error) => return Err(error),
            }
        }
        lock(&self.tried).push(tried.clone());
        Ok(tried)
    }

    // On hosts, a copy for a checkpoint lies beside what a device allocates, in the machine's memory; a limit does not count it.
    fn beside(&self, stage: &simulate::Stage) -> usize {
        match self.request.is_on_hosts() {
            true => stage.snapshot_bytes,
            false => 0,
        }
    }

    fn is_late(&self) -> bool {
        self.begun.elapsed() > self.request.budget
    }

    fn best(&self) -> Option<Tried> {
        let tried = lock(&self.tried);
        let fitting = tried.iter().filter(|tried| tried.fits);
        fitting
            .min_by(|one, other| one.step_s.total_cmp(&other.step_s))
            .cloned()
    }

    // Points of frontiers, of all allowed choices and of each of them beside keeping everything.
    fn mix(&self, pure: &[(SegmentMemory, Tried)], allowed: &[SegmentMemory]) -> Result<()> {
        let stays = &pure[0].1;
        let config = (self.config)(&stays.segments);
        let stages = costs::of_stages(self.request, &config, &stays.depths);
        let micro_batches = config.training.micro_batches as f64;
        let (stages, links) = calibrated(stages, Links::of(self.request), (pure, micro_batches));
        let pairs = allowed[1..].iter().map(|other| vec![allowed[0], *other]);
        let sets: Vec<Vec<SegmentMemory>> = [allowed.to_vec()].into_iter().chain(pairs).collect();
        let searched = threads::map(&sets, |set| {
            let frontiers = stages.iter().map(|stage| frontier(&links, stage, set));
            self.bisect(stays, &stages, &frontiers.collect::<Vec<_>>())
        });
        searched.into_iter().collect()
    }

    // On every stage, the point with the most bytes on the device that fits.
    fn bisect(
        &self,
        stays: &Tried,
        stages: &[Vec<SegmentCost>],
        frontiers: &[Vec<Point>],
    ) -> Result<()> {
        // The last point that is known to fit, as one behind it, and the first that is known not to.
        let mut known: Vec<[usize; 2]> = frontiers.iter().map(|points| [0, points.len()]).collect();
        for (stage, known) in known.iter_mut().enumerate() {
            if stays.bytes[stage] <= stays.capacity[stage] {
                known[0] = known[1];
            }
        }
        while !self.is_late() {
            let is_open = known.iter().any(|[fits, lacks]| fits < lacks);
            let middle = |[fits, lacks]: &[usize; 2]| match fits < lacks {
                true => (fits + lacks) / 2,
                false => fits.saturating_sub(1),
            };
            let picks: Vec<usize> = known.iter().map(middle).collect();
            let mut segments = stays.segments.clone();
            for ((stage, points), pick) in stages.iter().zip(frontiers).zip(&picks) {
                for (segment, choice) in stage.iter().zip(points[*pick].choices()) {
                    segments[segment.number] = choice;
                }
            }
            let tried = self.step(segments)?;
            if !is_open {
                break;
            }
            for (stage, (known, pick)) in known.iter_mut().zip(picks).enumerate() {
                match tried.bytes[stage] <= tried.capacity[stage] {
                    true => known[0] = known[0].max(pick + 1),
                    false => known[1] = known[1].min(pick).max(known[0]),
                }
            }
        }
        Ok(())
    }

    // Other choices for single segments of the best so far. Alike segments are tried once.
    fn change(&self, stays: &Tried, allowed: &[SegmentMemory]) -> Result<()> {
        let config = (self.config)(&stays.segments);
        let stages = costs::of_stages(self.request, &config, &stays.depths);
        let Some(mut best) = self.best() else {
            return Ok(());
        };
        let (mut seen, mut left) = (HashSet::new(), MOST_CHANGES);
        for (stage, segment) in stages
            .iter()
            .enumerate()
            .flat_map(|(stage, segments)| segments.iter().map(move |segment| (stage, segment)))
        {
            for choice in allowed {
                let own = best.segments[segment.number];
                let may = *choice != own && (!choice.recompute || segment.run.is_some());
                let alike = [segment.forward_s, segment.kept, segment.input].map(f64::to_bits);
                if !may || !seen.insert((stage, alike, own, *choice)) {
                    continue;
                }
                if left == 0 || self.is_late() {
                    return Ok(());
                }
                left -= 1;
                let mut segments = best.segments.clone();
                segments[segment.number] = *choice;
                let tried = self.step(segments)?;
                if tried.fits && tried.step_s < best.step_s {
                    // What failed beside other choices may succeed beside these.
                    best = tried;
                    seen.clear();
                }
            }
        }
        Ok(())
    }
}

// The closed forms, scaled to what the simulator found for pure choices: compute by what recomputation adds to a step, links by what
// moving everything adds.
fn calibrated(
    mut stages: Vec<Vec<SegmentCost>>,
    mut links: Links,
    (pure, micro_batches): (&[(SegmentMemory, Tried)], f64),
) -> (Vec<Vec<SegmentCost>>, Links) {
    let stays = pure[0].1.step_s;
    let added = |all: SegmentMemory| {
        let found = pure.iter().find(|(choice, _)| *choice == all);
        found.map(|(_, tried)| (tried.step_s - stays) / micro_batches)
    };
    let modelled = |stages: &[Vec<SegmentCost>], links: &Links, all: SegmentMemory| {
        let of_stage = |stage: &Vec<SegmentCost>| {
            let choice = |segment: &SegmentCost| SegmentMemory {
                recompute: all.recompute && segment.run.is_some(),
                ..all
            };
            let choices: Vec<SegmentMemory> = stage.iter().map(choice).collect();
            Point::of(links, stage, &choices).seconds
        };
        stages.iter().map(of_stage).fold(0.0, f64::max)
    };
    if let Some(added) = added(SegmentMemory::RECOMPUTED).filter(|added| *added > 0.0) {
        let scale = added / modelled(&stages, &links, SegmentMemory::RECOMPUTED);
        for segment in stages.iter_mut().flatten().filter(|_| scale.is_finite()) {
            segment.forward_s *= scale;
            segment.backward_s *= scale;
        }
    }
    for place in [PlaceKind::Host, PlaceKind::Files] {
        let all = SegmentMemory {
            recompute: false,
            place,
        };
        let Some(added) = added(all) else { continue };
        let at = |scale: f64| match place {
            PlaceKind::Host => Links {
                host: links.host * scale,
                ..links
            },
            _ => Links {
                files: links.files * scale,
                ..links
            },
        };
        // What is added falls as links are faster.
        let (mut slow, mut fast) = (1.0f64 / 16.0, 16.0f64);
        for _ in 0..20 {
            let scale = (slow * fast).sqrt();
            match modelled(&stages, &at(scale), all) > added {
                true => slow = scale,
                false => fast = scale,
            }
        }
        links = at((slow * fast).sqrt());
    }
    (stages, links)
}
