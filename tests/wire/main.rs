//! A bit that a collective or a message returns wrong on one rank is found in its step, where a digest sees what it feeds.
//!
//! What is expected of a fault follows from its place alone:
//! - within the forward of a segment: that segment's output differs; of a message that brings activations: the output of the
//!   first segment on that stage;
//! - within the objective and backward, in a reduction over Data, or of a message that brings gradients: gradients differ;
//! - in the reduction of the clip norm, if the rank's norm changed and clips: the weights differ after the update;
//! - in the reduction of the mean loss: no digest has it, and the loss that the rank reports is wrong.
//!
//! Ranks that hold the same then vote, in the first phase whose copies differ, which may be a later one. Where fewer than half of
//! the holders are wrong, they are named, and the rank of the fault is one of them; where half of them are, the error names none.
//! There is no vote where all holders are wrong alike, as after an exchange of nodes, which all ranks of its axis gather; `diff`
//! then names step, phase and tensor.
//!
//! `FASCICLE_FAULTS=100` flips that many bits instead of a few; `FASCICLE_FAULTS_SEED` repeats those of an earlier run.

mod device;

use device::{Moment, Received, Shared};
use grid::{Axis, Degrees, Grid};
use hal::{DType, lock};
use parallel::{Input, Model, Overlap, Reproducible, Route, Wires, layers::Loss};
use std::{ops::Range, path::Path};
use tensor::Device;
use testkit::{
    config, edit_gpt,
    faults::{asked, write_digests},
    fixed_batch, ranks,
};
use train::{
    Config, Error, Trainer,
    config::{OverlapNames, Precision},
    digest::{FORWARD, GRADIENTS, START, StepDigest, WEIGHTS, diff},
    trainer::StepResult,
};

const STEPS: u64 = 2;
const GRIDS: [&str; 6] = [
    "x=4",
    "y=4",
    "z=4",
    "data=4",
    "x=2,y=2,z=2",
    "z=2,data=2,pipeline=2",
];

#[derive(Clone, Copy, Debug, Default)]
struct Fault {
    step: u64,
    rank: usize,
    /// Which buffer that the rank receives in the step, and a bit.
    at: Option<(usize, u32)>,
}

/// A model that says where its rank is.
struct Watched {
    model: Box<dyn Model>,
    wire: Shared,
}

impl Watched {
    fn during<T>(&self, moment: Moment, run: impl FnOnce(&dyn Model) -> T) -> T {
        let before = lock(&self.wire).moment;
        if before != Moment::Outside {
            lock(&self.wire).moment = moment;
        }
        let made = run(&*self.model);
        lock(&self.wire).moment = before;
        made
    }
}

impl Model for Watched {
    fn num_segments(&self) -> usize {
        self.model.num_segments()
    }

    fn cost(&self, segment: usize) -> Option<f64> {
        self.model.cost(segment)
    }

    fn routes(&self) -> Vec<Route> {
        self.model.routes()
    }

    fn forward(&self, segment: usize, input: &Input<'_>, wires: Wires) -> parallel::Result<Wires> {
        self.during(Moment::Forward(segment), |model| {
            model.forward(segment, input, wires)
        })
    }

    fn objective(&self, input: &Input<'_>, wires: Wires) -> parallel::Result<Loss> {
        self.during(Moment::Objective, |model| model.objective(input, wires))
    }

    fn recomputed(&self) -> Vec<Range<usize>> {
        self.model.recomputed()
    }
}

/// What a rank has seen.
struct Seen {
    digests: Vec<StepDigest>,
    results: Vec<StepResult>,
    error: Option<Error>,
    /// In the step of the fault.
    received: Vec<Received>,
    is_hit: bool,
    first_segment: usize,
}

fn run(grid: &str, fault: Fault) -> Vec<Seen> {
    let mut config = config(Precision::F32);
    config.training.reproducible = Reproducible::Grid.into();
    // With weights as small as usual, the scores of attention are so near 0 that rounding hides a wrong query.
    edit_gpt(&mut config, |model| model.init_deviation = 0.3);
    (config.training.digest_every, config.training.steps) = (1, STEPS);
    config.parallel.grid = grid.parse().unwrap();
    // Whatever is queued is then used before anything else is queued.
    config.parallel.overlap = OverlapNames(Overlap::NONE);
    let num_ranks = config.grid().unwrap().world_size();
    ranks(num_ranks, move |world, _| {
        let wire = Shared::default();
        lock(&wire).fault = fault.at.filter(|_| fault.rank == world.rank());
        let options = cpu::Options {
            ordinal: world.local_rank(),
            ..cpu::Options::default()
        };
        let device = Device::new(device::wrap(cpu::open(options)?, &wire))?;
        let context = config.context(&world, &device)?;
        of_rank(&config, &context, fault, &wire)
    })
}

fn of_rank(
    config: &Config,
    context: &parallel::Context,
    fault: Fault,
    wire: &Shared,
) -> train::Result<Seen> {
    let build = |builder: &nn::Builder| {
        Ok(Watched {
            model: config.model.build(builder)?,
            wire: wire.clone(),
        })
    };
    let optimiser = config.training.optimiser();
    let mut trainer = Trainer::boxed(context, build, optimiser, config.trainer_options())?;
    let own = trainer.pipeline().cut();
    let mut seen = Seen {
        first_segment: own.segments(context.index(Axis::Pipeline)).start,
        digests: Vec::new(),
        results: Vec::new(),
        error: None,
        received: Vec::new(),
        is_hit: false,
    };
    for step in 0..STEPS {
        let batch = fixed_batch(&trainer, config, step)?;
        if step == fault.step {
            lock(wire).moment = Moment::Between;
        }
        let ended = trainer.step(&batch);
        lock(wire).moment = Moment::Outside;
        match ended {
            Ok(result) => {
                seen.results.push(result);
                seen.digests.extend(trainer.digest().cloned());
            }
            Err(error) => {
                seen.error = Some(error);
                break;
            }
        }
    }
    let wire = lock(wire);
    (seen.received, seen.is_hit) = (wire.received.clone(), wire.is_hit);
    Ok(seen)
}

/// Where a fault must show.
#[derive(Debug, PartialEq)]
enum Expected {
    /// In the output of this segment.
    Output(usize),
    Gradients,
    /// In the weights after the update, if the norm changed and clips.
    Weights,
    /// In no digest, but in the rank's loss.
    Loss,
}

impl Expected {
    fn phase(&self) -> &'static str {
        match self {
            Expected::Output(_) => FORWARD,
            Expected::Gradients => GRADIENTS,
            Expected::Weights | Expected::Loss => WEIGHTS,
        }
    }
}

// The place of a phase in a step.
fn order(phase: &str) -> usize {
    let all = [START, FORWARD, GRADIENTS, WEIGHTS];
    all.iter()
        .position(|one| *one == phase)
        .unwrap_or(all.len())
}

fn expected(hit: &Received, rank: usize, grid: &str, first_segment: usize) -> Expected {
    let stage = |rank: usize| {
        let degrees: Degrees = grid.parse().unwrap();
        let grid = Grid::new(degrees, Default::default()).unwrap();
        grid.coordinates(rank).get(Axis::Pipeline)
    };
    match (hit.moment, hit.sender, hit.operation) {
        (_, Some(sender), _) if stage(sender) < stage(rank) => Expected::Output(first_segment),
        (_, Some(_), _) => Expected::Gradients,
        (Moment::Forward(segment), ..) => Expected::Output(segment),
        (_, _, "all_reduce") if hit.dtype == DType::F64 => Expected::Weights,
        // Copies of a weight on two stages are reduced too.
        (Moment::Between, _, "all_reduce") if hit.group.starts_with("axis") => Expected::Loss,
        _ => Expected::Gradients,
    }
}

// The step, phase and tensor in which a fault shows, if it does, and whether copies disagreed.
fn found(
    clean: &Path,
    seen: &mut Seen,
    fault: Fault,
    what: &str,
) -> (Option<(u64, String, String)>, bool) {
    if let Some(error) = &seen.error {
        println!("{error}");
    }
    match seen.error.take() {
        Some(Error::Replicas {
            step,
            phase,
            tensor,
            holders,
            wrong,
        }) => {
            match wrong {
                Some(wrong) => assert!(
                    wrong.contains(&fault.rank) && 2 * wrong.len() < holders.len(),
                    "{what}: {phase} {tensor} {wrong:?} of {holders:?}"
                ),
                // As many are wrong alike as are right.
                None => assert!(
                    holders.len().is_multiple_of(2) && holders.contains(&fault.rank),
                    "{what}: {phase} {tensor} {holders:?}"
                ),
            }
            (Some((step, phase, tensor)), true)
        }
        Some(error) => panic!("{what}: {error}"),
        None => {
            let faulty = tempfile::tempdir().unwrap();
            write_digests(faulty.path(), &seen.digests);
            let found = diff(clean, faulty.path()).unwrap().digest;
            let found = found.map(|found| (found.step, found.phase, found.tensor));
            (found, false)
        }
    }
}

#[test]
fn every_wrong_bit_of_a_collective_is_found() {
    let (count, mut random) = asked(|name| std::env::var(name).ok(), 18, 11);
    let clean = tempfile::tempdir().unwrap();
    let serial = run("x=1", Fault::default()).swap_remove(0);
    write_digests(clean.path(), &serial.digests);

    let (mut done, mut by_copies) = (0, 0);
    while done < count {
        let grid = GRIDS[done as usize % GRIDS.len()];
        let world = grid.parse::<Degrees>().unwrap().world_size().unwrap();
        let (step, rank) = (random.below(STEPS), random.below(world as u64) as usize);
        let none = Fault {
            step,
            rank,
            at: None,
        };
        let calls = run(grid, none)[rank].received.len();
        let (call, bit) = (random.below(calls as u64) as usize, random.below(7) as u32);
        let at = Some((call, bit));
        let fault = Fault { at, ..none };
        let mut seen = run(grid, fault);
        if !seen[rank].is_hit {
            continue;
        }
        let hit = seen[rank].received[call].clone();
        let what = format!("{fault:?} on {grid}, {hit:?}");
        let expected = expected(&hit, rank, grid, seen[rank].first_segment);
        let result = seen[rank].results.get(step as usize).copied();
        let (found, is_by_copies) = found(clean.path(), &mut seen[0], fault, &what);
        println!("{what}: {found:?}, copies {is_by_copies}");
        by_copies += usize::from(is_by_copies);
        done += 1;
        let right = serial.results[step as usize];
        match expected {
            Expected::Loss => {
                assert_eq!(found, None, "{what}");
                assert_ne!(result.unwrap().loss, right.loss, "{what}");
                continue;
            }
            // The largest square only selects units, in which the sum is exact.
            Expected::Weights if found.is_none() => {
                let norm = result.unwrap().gradient_norm;
                assert_eq!(norm, right.gradient_norm, "{what}");
                continue;
            }
            _ => {}
        }
        let (found_step, phase, tensor) = found.unwrap_or_else(|| panic!("{what}: nothing found"));
        assert_eq!(found_step, step + 1, "{what}");
        let (first, this) = (order(expected.phase()), order(&phase));
        match expected {
            // What no other rank holds alike shows in the first later phase in which copies differ.
            _ if is_by_copies && this > first => {}
            Expected::Output(segment) => {
                assert_eq!(phase, FORWARD, "{what}");
                let named = format!("segment {segment}, ");
                assert!(tensor.starts_with(&named), "{what}: {tensor}");
            }
            Expected::Gradients => assert_eq!(phase, GRADIENTS, "{what}: {tensor}"),
            _ => assert_eq!(phase, WEIGHTS, "{what}: {tensor}"),
        }
        // Of a parameter's gradient, the exchange over Data returns parts that all replicas gather.
        if grid == "data=4" && expected == Expected::Gradients {
            assert_eq!(is_by_copies, hit.operation == "all_gather", "{what}");
        }
    }
    println!("{count} found or expected to be in no digest, {by_copies} by copies");
}
