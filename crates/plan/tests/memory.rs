//! What each segment keeps and where, chosen for a capacity.

use bootstrap::local::{self, Options};
use fascicle_plan::{
    Candidate, Error, Outcome, Request, SegmentChoices, enumerate, memory, simulate,
};
use grid::machine::{Machine, Quantity};
use parallel::memory::{PlaceKind, SegmentMemory};
use tensor::Device;
use train::{
    Config,
    config::{MemoryMode, Precision},
};

/// A GPT on devices of this machine, whose links have these bandwidths.
fn request(machine: &str, layers: usize, grid: &str, gbps: [f64; 2]) -> Request {
    let mut model = families::gpt::published(layers, 512, 8);
    (model.context, model.vocabulary) = (256, 512);
    let mut machine = Machine::find(machine).unwrap();
    let [host, files] = gbps;
    machine.device.host_gbps = Quantity::measured(host, "a case of a test");
    machine.device.files_gbps = Some(Quantity::measured(files, "a case of a test"));
    let degrees: grid::Degrees = grid.parse().unwrap();
    let devices = degrees.world_size().unwrap();
    Request {
        batch: 32,
        precision: Precision::Bf16,
        grid: Some(degrees),
        micro_batches: Some(if degrees.pipeline > 1 { 4 } else { 1 }),
        schedule: Some("1f1b".parse().unwrap()),
        allow_pipeline: true,
        ..Request::new(machine, devices, "a small one", model.into()).unwrap()
    }
}

fn candidate(request: &Request, memory: SegmentChoices) -> Candidate {
    let first = enumerate::candidates(request).into_iter().next().unwrap();
    Candidate { memory, ..first }
}

fn outcome(request: &Request, segments: &[SegmentMemory]) -> Outcome {
    let each = SegmentChoices::Each(segments.into());
    simulate(request, &candidate(request, each), false).unwrap()
}

/// The choice for a capacity between what the leanest pure choice needs and what keeping everything needs.
fn choose(request: &Request, share: f64) -> memory::MemoryChoice {
    let config = |segments: &[SegmentMemory]| {
        let each = SegmentChoices::Each(segments.into());
        candidate(request, each).config(request)
    };
    let free = memory::choose(request, &config).unwrap();
    let most = |tried: &memory::Tried| tried.most_bytes();
    let least = free
        .pure
        .iter()
        .map(|(_, tried)| most(tried))
        .min()
        .unwrap();
    let stays = most(free.pure(SegmentMemory::STAYS).unwrap());
    // What fits is kept as it is.
    assert_eq!(free.chosen.segments, free.pure[0].1.segments);
    let limit = least + ((stays - least) as f64 * share) as usize;
    let limited = Request {
        memory_limit: Some(limit),
        ..request.clone()
    };
    let choice = memory::choose(&limited, &config).unwrap();
    assert!(choice.chosen.most_bytes() <= limit);
    // The same step as any simulation of that choice, and the memory of its fullest rank.
    let again = outcome(&limited, &choice.chosen.segments);
    assert_eq!(again.step_s, choice.chosen.step_s);
    assert!(again.memory() <= choice.chosen.most_bytes());
    choice
}

fn fastest_pure(choice: &memory::MemoryChoice) -> f64 {
    let fitting = choice.pure.iter().filter(|(_, tried)| tried.fits);
    fitting
        .map(|(_, tried)| tried.step_s)
        .fold(f64::INFINITY, f64::min)
}

const HOST: SegmentMemory = SegmentMemory {
    recompute: false,
    place: PlaceKind::Host,
};

#[test]
fn mixed_choices_are_never_slower_than_pure_ones_and_strictly_faster_in_named_cases() {
    // Links that hide nothing, some and most of what moves; on one device, over X, and on two stages.
    for (name, machine, grid, gbps) in [
        ("slow links", "perlmutter", "x=1", [2.0, 0.5]),
        ("links as described", "perlmutter", "x=1", [25.0, 2.0]),
        ("fast links", "perlmutter", "x=1", [90.0, 2.0]),
        ("tensor parallel", "frontier", "x=2", [36.0, 0.5]),
        ("two stages", "perlmutter", "pipeline=2", [8.0, 1.0]),
    ] {
        let request = request(machine, 4, grid, gbps);
        for share in [0.25, 0.6] {
            let choice = choose(&request, share);
            let (mixed, pure) = (choice.chosen.step_s, fastest_pure(&choice));
            println!(
                "{name}, {share}: {:.3} ms of {} simulated against {:.3} ms pure: {}",
                mixed * 1e3,
                choice.num_simulated,
                pure * 1e3,
                choice.sentences().join("; ")
            );
            assert!(mixed < pure, "{name}, {share}");
            let recomputed = choice.pure(SegmentMemory::RECOMPUTED).unwrap().step_s;
            let moved = choice.pure(HOST).unwrap().step_s;
            assert!(mixed < recomputed.min(moved), "{name}, {share}");
        }
    }
}

#[test]
fn the_choice_is_about_as_fast_as_the_best_of_all() {
    let place = |place| SegmentMemory {
        recompute: false,
        place,
    };
    let options = |recomputed: bool| {
        let again = [PlaceKind::Device, PlaceKind::Host].map(|place| SegmentMemory {
            recompute: true,
            place,
        });
        let kept = PlaceKind::ALL.map(place);
        let again = again.into_iter().filter(move |_| recomputed);
        kept.into_iter().chain(again).collect::<Vec<_>>()
    };
    // Two blocks of two segments each, behind an embedding and before a head, which keeps nothing for long.
    for gbps in testkit::in_turn(0, [[3.0, 1.0], [12.0, 2.0]]) {
        let request = request("perlmutter", 2, "x=1", gbps);
        let mut all = vec![vec![SegmentMemory::STAYS], vec![HOST]];
        for segment in &request.work.segments[1..5] {
            let longer = |before: Vec<SegmentMemory>| {
                let with = move |own| [&before[..], &[own]].concat();
                options(segment.recomputed)
                    .into_iter()
                    .map(with)
                    .collect::<Vec<_>>()
            };
            all = all.into_iter().flat_map(longer).collect();
        }
        let one = |segments: &Vec<SegmentMemory>| {
            let outcome = outcome(&request, &[&segments[..], &[SegmentMemory::STAYS]].concat());
            (outcome.step_s, outcome.memory())
        };
        let halves = all.split_at(all.len() / 2);
        let half = |segments: &[Vec<SegmentMemory>]| segments.iter().map(one).collect::<Vec<_>>();
        let simulated: Vec<(f64, usize)> = std::thread::scope(|scope| {
            let first = scope.spawn(|| half(halves.0));
            let second = half(halves.1);
            [first.join().unwrap(), second].concat()
        });
        for share in [0.2, 0.5, 0.8] {
            let choice = choose(&request, share);
            let limit = choice.chosen.capacity[0];
            let fitting = simulated.iter().filter(|(_, bytes)| *bytes <= limit);
            let best = fitting
                .map(|(step_s, _)| *step_s)
                .fold(f64::INFINITY, f64::min);
            let more = choice.chosen.step_s / best - 1.0;
            println!(
                "{gbps:?}, {share}: {:.2} % above the best of {}",
                100.0 * more,
                all.len()
            );
            assert!(
                more < 0.01,
                "{gbps:?}, {share}: {more} above the best, {}",
                choice.words()
            );
        }
    }
}

#[test]
fn a_capacity_that_nothing_fits_is_refused_with_the_numbers() {
    let request = request("perlmutter", 2, "pipeline=2", [8.0, 1.0]);
    let limited = Request {
        memory_limit: Some(1 << 20),
        ..request
    };
    let config = |segments: &[SegmentMemory]| {
        let each = SegmentChoices::Each(segments.into());
        candidate(&limited, each).config(&limited)
    };
    let refused = memory::choose(&limited, &config).unwrap_err();
    let Error::Capacity {
        capacity,
        least,
        stays,
        ..
    } = refused
    else {
        panic!("{refused}");
    };
    assert_eq!(capacity, 1 << 20);
    assert!(
        capacity < least && least < stays,
        "{capacity} {least} {stays}"
    );
    let text = refused.to_string();
    assert!(
        text.starts_with("training.memory: found 1.0 MiB for each rank of stage "),
        "{text}"
    );
}

/// A run on this host: losses, and the most bytes of a rank.
fn train(config: &Config) -> (Vec<u64>, usize) {
    let (config, grid) = (config.clone(), config.grid().unwrap());
    let ranks = local::run(Options::new(grid.world_size()), move |world| {
        let options = hal::OpenOptions {
            ordinal: world.rank(),
            settings: config.device_settings(),
            ..Default::default()
        };
        let device = Device::new((cpu::driver().open)(options)?)?;
        let context = config.context(&world, &device)?;
        let mut trainer = config.trainer(&context)?;
        let mut losses = Vec::new();
        for step in 0..3 {
            let rows = |rows: std::ops::Range<usize>| {
                let ids = |shift: usize| {
                    let all = rows
                        .clone()
                        .flat_map(|row| (0..64).map(move |at| row * 7 + at * 3));
                    all.map(|id| ((id + 3 * shift) % 131) as u32).collect()
                };
                let (inputs, targets) = (ids(step as usize), ids(step as usize + 1));
                Ok(train::data::Batch { inputs, targets }.into_rows(64))
            };
            let batch = trainer.batch_of(step, rows)?;
            losses.push(trainer.step(&batch)?.loss.to_bits());
        }
        Ok::<_, train::Error>((losses, device.memory_use().peak))
    });
    let ranks = ranks.unwrap_or_else(|failure| panic!("{}", failure.report()));
    let peak = ranks.iter().map(|(_, peak)| *peak).max().unwrap();
    (ranks[0].0.clone(), peak)
}

#[test]
fn a_run_with_three_fifths_of_the_memory_that_it_needs_has_the_same_bits() {
    let text = r#"
        [model]
        layers = 6
        hidden = 64
        heads = 4
        context = 64
        vocabulary = 131
        [training]
        batch = 32
        optimiser = "sgd"
        reproducible = "grid"
        [parallel]
        bucket_mib = 1
    "#;
    let mut machine = Machine::find("laptop").unwrap();
    machine.device.files_gbps = Some(Quantity::measured(1.0, "a case of a test"));
    let cases = [
        ("x=2", 1),
        ("pipeline=2", 2),
        ("data=2", 2),
        ("x=4", 1),
        ("y=2", 1),
        ("x=2,y=2", 1),
        ("z=2", 1),
    ];
    for (grid, micro_batches) in &cases[..if testkit::is_exhaustive() { 7 } else { 3 }] {
        let mut config = Config::parse(text, &families::families()).unwrap();
        config.parallel.grid = grid.parse().unwrap();
        config.training.micro_batches = *micro_batches;
        config.training.validation_batches = 0;
        let (losses, free) = train(&config);
        config.device.memory_limit = Some(free * 3 / 5);
        config.training.memory = MemoryMode::Auto;
        let choice = memory::settle(&mut config, &machine).unwrap().unwrap();
        println!("{grid}: {}", choice.sentences().join("; "));
        assert_eq!(config.training.memory, MemoryMode::Stated);
        // What was chosen is in the configuration, as a file states it.
        let again = Config::parse(&config.to_toml().unwrap(), &families::families()).unwrap();
        assert_eq!(again, config);
        let (limited, peak) = train(&again);
        assert_eq!(limited, losses, "{grid}");
        assert!(peak <= free * 3 / 5, "{grid}: {peak} of {free}");
        // The simulated run holds the ids of all its steps at once.
        let simulated = choice.chosen.most_bytes();
        assert!(
            (0..64 << 10).contains(&(simulated - peak)),
            "{grid}: {peak}, {simulated}"
        );
    }
}
