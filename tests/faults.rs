//! A flipped bit, anywhere, is found: the sentinel names step and tensor, and the rank where copies outvote it, and `diff`
//! with a run on another grid names step, phase and tensor where there are no copies.
//!
//! `FASCICLE_FAULTS=100` flips that many bits instead of a few; `FASCICLE_FAULTS_SEED` repeats those of an earlier run.

use bootstrap::World;
use grid::{Axis, Degrees};
use parallel::{DTensor, Input, Model, Reproducible, Route, Wires, data::Part, layers::Loss};
use std::{cell::Cell, collections::HashMap, ops::Range, rc::Rc};
use tensor::{Device, Tensor, Var};
use testkit::{
    config,
    faults::{asked, write_digests},
    fixed_batch, ranks,
};
use train::{
    Config, Error, Trainer,
    config::Precision,
    digest::{FORWARD, GRADIENTS, START, StepDigest, WEIGHTS, diff},
};

const STEPS: u64 = 3;
const GRIDS: [&str; 5] = [
    "x=2,y=2",
    "data=4",
    "x=4",
    "y=2,z=2,pipeline=2",
    "x=2,pipeline=2,data=2",
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Weights,
    State,
    /// What a segment returns.
    Output,
    /// The gradient of that.
    OutputGradient,
}

#[derive(Clone, Copy, Debug)]
struct Fault {
    place: Place,
    /// Counted from 0.
    step: u64,
    rank: usize,
    /// From which parameter or segment, element and bit follow.
    choice: u64,
}

/// A model that returns one wrong bit.
struct Faulty {
    model: Box<dyn Model>,
    fault: Option<Fault>,
    rank: usize,
    /// The segment that is wrong, of those that this rank runs; `None` after the fault, since two might cancel.
    segment: Rc<Cell<Option<usize>>>,
}

impl Faulty {
    fn is_here(&self, place: Place, segment: usize, x: &DTensor) -> Option<Fault> {
        self.fault.filter(|fault| {
            let is_here = fault.place == place && fault.rank == self.rank;
            let is_now = is_here && fault.step == x.pass().step();
            let is_first = is_now && self.segment.get() == Some(segment);
            if is_first {
                self.segment.set(None);
            }
            is_first
        })
    }
}

impl Model for Faulty {
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
        let mut made = self.model.forward(segment, input, wires)?;
        let name = match segment + 1 == self.num_segments() {
            true => "logits",
            false => "x",
        };
        let x = made.take(name)?;
        if let Some(fault) = self.is_here(Place::Output, segment, &x) {
            flip(x.tensor()?, fault)?;
        }
        let backward = self.is_here(Place::OutputGradient, segment, &x);
        let var = Var::record_one(
            "fault",
            &[x.var()?],
            x.tensor()?.clone(),
            true,
            move |d_out| {
                if let Some(fault) = backward {
                    flip(&d_out, fault)?;
                }
                Ok(vec![Some(d_out)])
            },
        );
        let (pass, features, cut) = (x.pass().clone(), x.features(), x.cut());
        Ok(made.with(name, DTensor::new(&pass, var, features, cut)?))
    }

    fn objective(&self, input: &Input<'_>, wires: Wires) -> parallel::Result<Loss> {
        self.model.objective(input, wires)
    }

    fn recomputed(&self) -> Vec<Range<usize>> {
        self.model.recomputed()
    }
}

// One of the upper bits of the largest element's fraction, which no rounding hides.
fn flip(tensor: &Tensor, fault: Fault) -> parallel::Result<()> {
    let mut numbers = tensor.to_vec::<f32>()?;
    flip_largest(&mut numbers, fault);
    tensor.upload(&numbers)
}

fn flip_largest(numbers: &mut [f32], fault: Fault) {
    let largest = numbers
        .iter_mut()
        .max_by(|a, b| a.abs().total_cmp(&b.abs()))
        .expect("elements");
    *largest = f32::from_bits(largest.to_bits() ^ (1 << (16 + fault.choice % 7)));
}

// One element of one parameter or state that this rank holds.
fn flip_part(trainer: &Trainer, part: Part, fault: Fault) -> train::Result<()> {
    let set = trainer.parameters();
    let (mut held, chosen) = (Vec::new(), chosen(trainer, fault));
    set.read::<Error>(part, |parameter, numbers| {
        let mut numbers: Vec<f32> = numbers.into_iter().map(|number| number as f32).collect();
        if parameter.name() == chosen {
            flip_largest(&mut numbers, fault);
        }
        held.push(numbers.into_iter().map(f64::from).collect::<Vec<f64>>());
        Ok(())
    })?;
    let mut held = held.into_iter();
    set.write::<Error>(part, |_| Ok(held.next().expect("as many as were read")))?;
    Ok(())
}

fn chosen(trainer: &Trainer, fault: Fault) -> String {
    let held = trainer.parameters().parameters();
    held[fault.choice as usize % held.len()].name().to_owned()
}

/// What a run has seen: its digests, the error that ended it, and what the fault hit.
struct Seen {
    digests: Vec<StepDigest>,
    error: Option<Error>,
    hit: String,
    /// The segments that use each parameter.
    segments: HashMap<String, Vec<usize>>,
}

fn run(grid: &str, fault: Option<Fault>) -> Vec<Seen> {
    let mut config = config(Precision::F32);
    config.training.reproducible = Reproducible::Grid.into();
    config.training.digest_every = 1;
    config.training.steps = STEPS;
    config.parallel.grid = grid.parse().unwrap();
    let world = config.grid().unwrap().world_size();
    ranks(world, move |world, device| {
        of_rank(&config, fault, &world, &device)
    })
}

fn of_rank(
    config: &Config,
    fault: Option<Fault>,
    world: &World,
    device: &Device,
) -> train::Result<Seen> {
    let context = config.context(world, device)?;
    let segment = Rc::new(Cell::new(None));
    let build = |builder: &nn::Builder| {
        Ok(Faulty {
            model: config.model.build(builder)?,
            fault,
            rank: world.rank(),
            segment: segment.clone(),
        })
    };
    let optimiser = config.training.optimiser();
    let mut trainer = Trainer::boxed(&context, build, optimiser, config.trainer_options())?;
    let mut seen = Seen {
        digests: Vec::new(),
        error: None,
        hit: String::new(),
        segments: HashMap::new(),
    };
    for parameter in trainer.pipeline().declared() {
        let of_one = (parameter.name().to_owned(), parameter.segments());
        seen.segments.extend([of_one]);
    }
    if let Some(fault) = fault.filter(|fault| fault.rank == world.rank()) {
        let own = trainer
            .pipeline()
            .cut()
            .segments(context.index(Axis::Pipeline));
        let chosen_segment = own.start + fault.choice as usize % own.len();
        segment.set(Some(chosen_segment));
        seen.hit = match fault.place {
            Place::Weights | Place::State => chosen(&trainer, fault),
            _ => chosen_segment.to_string(),
        };
    }
    for step in 0..STEPS {
        if let Some(fault) = fault.filter(|fault| (fault.rank, fault.step) == (world.rank(), step))
        {
            match fault.place {
                Place::Weights => flip_part(&trainer, Part::Weights, fault)?,
                Place::State => flip_part(&trainer, Part::State(0), fault)?,
                _ => {}
            }
        }
        let batch = fixed_batch(&trainer, config, step)?;
        match trainer.step(&batch) {
            Ok(_) => seen.digests.extend(trainer.digest().cloned()),
            Err(error) => {
                seen.error = Some(error);
                break;
            }
        }
    }
    Ok(seen)
}

#[test]
fn every_flipped_bit_is_found() {
    let (count, mut random) = asked(|name| std::env::var(name).ok(), 12, 7);
    let clean = tempfile::tempdir().unwrap();
    let serial = run("x=1", None).swap_remove(0);
    assert!(serial.error.is_none(), "{:?}", serial.error);
    write_digests(clean.path(), &serial.digests);

    let (mut by_copies, mut named) = (0, 0);
    let mut done = 0;
    while done < count {
        let grid = GRIDS[random.below(GRIDS.len() as u64) as usize];
        let world = grid.parse::<Degrees>().unwrap().world_size().unwrap();
        let places = [
            Place::Weights,
            Place::State,
            Place::Output,
            Place::OutputGradient,
        ];
        let fault = Fault {
            place: places[random.below(4) as usize],
            step: random.below(STEPS),
            rank: random.below(world as u64) as usize,
            choice: random.below(1 << 30),
        };
        // The first step finds no moments.
        if fault.place == Place::State && fault.step == 0 {
            continue;
        }
        done += 1;
        let what = format!("{fault:?} on {grid}");
        let mut ranks = run(grid, Some(fault));
        let hit = ranks[fault.rank].hit.clone();
        let seen = ranks.swap_remove(0);
        let error = seen.error;
        let expected = match fault.place {
            Place::Weights => vec![START],
            // A flipped moment may leave the weights as they are, if it is small.
            Place::State => vec![WEIGHTS, "state0"],
            Place::Output => vec![FORWARD],
            Place::OutputGradient => vec![GRADIENTS],
        };
        let (step, phase, tensor) = match error {
            Some(Error::Replicas {
                step,
                phase,
                tensor,
                holders,
                wrong,
            }) => {
                by_copies += 1;
                match wrong {
                    // Gradients are summed after the fault, so the other replicas of its rank are wrong too.
                    _ if fault.place == Place::OutputGradient => {
                        assert!(holders.contains(&fault.rank), "{what}");
                    }
                    Some(wrong) => {
                        assert_eq!(wrong, [fault.rank], "{what}");
                        named += 1;
                    }
                    None => assert!(
                        holders.len() == 2 && holders.contains(&fault.rank),
                        "{what}"
                    ),
                }
                (step, phase, tensor)
            }
            Some(error) => panic!("{what}: {error}"),
            None => {
                let faulty = tempfile::tempdir().unwrap();
                write_digests(faulty.path(), &seen.digests);
                let found = diff(clean.path(), faulty.path()).unwrap();
                let found = found
                    .digest
                    .unwrap_or_else(|| panic!("{what}: nothing found"));
                assert!(
                    found.ranks[1].contains(&fault.rank) || fault.place == Place::OutputGradient,
                    "{what}: {found}"
                );
                (found.step, found.phase, found.tensor)
            }
        };
        assert_eq!(step, fault.step + 1, "{what}: {phase} {tensor}");
        assert!(
            expected.contains(&phase.as_str()),
            "{what}: {phase} {tensor}"
        );
        match fault.place {
            Place::Weights | Place::State => assert_eq!(tensor, hit, "{what}"),
            Place::Output => assert!(
                tensor.starts_with(&format!("segment {hit}, ")),
                "{what}: {tensor}"
            ),
            Place::OutputGradient => {
                let hit = hit.parse().unwrap();
                assert!(
                    seen.segments[&tensor].contains(&hit),
                    "{what}: {tensor} of {hit}"
                );
            }
        }
        println!("{what}: step {step}, {phase}, {tensor}");
    }
    println!("{count} found, {by_copies} by copies, of which {named} name the rank");
}
