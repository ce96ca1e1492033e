//! The simulated run matches the real one: the same bytes in the same collectives, and the same memory, on
//! every stage.

use bootstrap::local::{self, Options};
use fascicle_plan::{Candidate, Request, StatePlaceKinds, enumerate, estimate, simulate};
use grid::{Degrees, machine::Machine};
use parallel::{
    Context, Counters, GradientWire, Reproducible,
    data::UpdatePlace,
    memory::{ActivationMemory, Segments},
};
use tensor::{Device, MemoryKind, MemoryUse};
use train::{
    Config,
    config::{OptimiserKind, PlaceKind, Precision},
};

const STEPS: u64 = 2;

fn request(degrees: Degrees, bits: Reproducible) -> Request {
    request_of(true, degrees, bits)
}

fn request_of(tied_head: bool, degrees: Degrees, bits: Reproducible) -> Request {
    let mut model = families::gpt::published(4, 64, 8);
    (model.context, model.vocabulary, model.tied_head) = (16, 96, tied_head);
    let devices = degrees.world_size().unwrap();
    Request {
        batch: 16,
        precision: Precision::F32,
        grid: Some(degrees),
        micro_batches: Some(2),
        reproducible: bits.into(),
        allow_pipeline: true,
        ..Request::new(
            Machine::find("laptop").unwrap(),
            devices,
            "small",
            model.into(),
        )
        .unwrap()
    }
}

// Every rank's counters of the last step, its memory, and that of the host in which its state is updated.
fn real(config: &Config) -> Vec<(Counters, MemoryUse, MemoryUse)> {
    let (config, grid) = (config.clone(), config.grid().unwrap());
    local::run(Options::new(grid.world_size()), move |world| {
        let device = Device::new(cpu::open(cpu::Options {
            ordinal: world.rank(),
            ..Default::default()
        })?)?;
        let context = Context::new(world, grid, device.clone(), config.settings())?;
        let mut trainer = config.trainer(&context)?;
        let batch = |step| {
            let blank = |range: std::ops::Range<usize>| Ok(config.model.blank_rows(range.len()));
            trainer.batch_of(step, blank)
        };
        // As in a simulation, which announces a batch behind the last step.
        let batches = (0..=STEPS).map(batch).collect::<train::Result<Vec<_>>>()?;
        for pair in batches.windows(2) {
            context.reset_counters();
            trainer.step_before(&pair[0], Some(&pair[1]))?;
        }
        let counters = context.counters();
        let host = trainer.parameters().host_memory().unwrap_or_default();
        Ok::<_, train::Error>((counters, device.memory_use(), host))
    })
    .unwrap()
}

fn compare(request: &Request, candidate: &Candidate) {
    let real = real(&candidate.config(request));
    let simulated = simulate(request, candidate, false).unwrap();
    assert_eq!(simulated.stages.len(), candidate.degrees.pipeline);
    for stage in &simulated.stages {
        let (counters, memory, host) = &real[stage.rank];
        let all = |counters: &Counters| counters.iter().collect::<Vec<_>>();
        assert_eq!(
            all(&stage.counters),
            all(counters),
            "bytes of rank {} of {candidate:?}",
            stage.rank
        );
        // A tensor may take a free block that is up to an eighth larger, and a real device frees one only when its streams are done:
        // with the many small tensors of adapters, that is seen.
        let slack = match request.tuning.adapter_rank {
            0 => 0,
            _ => memory.peak / 1000,
        };
        let near = |found: usize, real: usize| found.abs_diff(real) <= slack;
        assert!(
            near(stage.memory.peak, memory.peak),
            "peak of rank {} of {candidate:?}: {} in simulation, {}",
            stage.rank,
            stage.memory.peak,
            memory.peak
        );
        for (found, real) in stage.memory.by_kind.iter().zip(&memory.by_kind) {
            let equal = found.in_use == real.in_use && found.peak == real.peak;
            assert!(
                equal && near(found.at_peak, real.at_peak),
                "kinds of rank {} of {candidate:?}: {found:?} in simulation, {real:?}",
                stage.rank
            );
        }
        if candidate.places.optimiser == PlaceKind::Host
            && candidate.places.update == UpdatePlace::Host
            && candidate.degrees.pipeline == 1
        {
            // A bound: tensors that a grid does not cut are left out, and blocks are rounded up by an eighth at most.
            let held = host.of(MemoryKind::Optimiser).peak as f64;
            let bound = estimate::on_host(request, candidate);
            assert!(
                (bound..1.2 * bound).contains(&held),
                "{held} of at least {bound} on the host, {candidate:?}"
            );
        }
    }
}

// One candidate of each kind of sharding; returns how many there are.
fn compare_shardings(request: &Request) -> usize {
    let mut seen = Vec::new();
    for candidate in enumerate::candidates(request) {
        if !seen.contains(&candidate.sharding) {
            seen.push(candidate.sharding);
            compare(request, &candidate);
        }
    }
    seen.len()
}

#[test]
fn bytes_and_memory_equal_those_of_the_real_run() {
    let grids = [
        "x=2",
        "y=2",
        "z=2",
        "data=2",
        "pipeline=2",
        "x=2,z=2",
        "y=2,data=2",
        "x=2,y=2,z=2",
        "x=2,z=2,pipeline=2",
        "context=2",
        "x=2,context=2,data=2",
    ];
    for degrees in grids.map(|text| text.parse::<Degrees>().unwrap()) {
        for bits in [Reproducible::Run, Reproducible::Grid] {
            // Unless the tests are exhaustive, sums that are the same on every grid where ranks are few.
            let is_small = degrees.world_size() == Ok(2);
            if bits == Reproducible::Grid && !is_small && !testkit::is_exhaustive() {
                continue;
            }
            let request = request(degrees, bits);
            // With and without recomputation, sharding, kept gathered weights and spread vectors, and with every kind of schedule.
            let mut seen = Vec::new();
            for candidate in enumerate::candidates(&request) {
                let kind = (
                    candidate.memory.recomputes_all(),
                    candidate.sharding,
                    candidate.keep_gathered,
                    candidate.sequence_parallel,
                    candidate.context_attention,
                    candidate.schedule,
                );
                if !seen.contains(&kind) {
                    seen.push(kind);
                    compare(&request, &candidate);
                }
            }
            assert!(seen.len() >= 2);
        }
    }
}

// These hold several versions of the weights, and begin a step before the one before it has ended.
#[test]
fn those_of_schedules_that_delay_gradients_equal_them_too() {
    for schedule in ["pipedream", "pipedream-2bw"] {
        for grid in [
            "pipeline=2",
            "pipeline=4",
            "z=2,pipeline=2",
            "data=2,pipeline=2",
        ] {
            let request = Request {
                schedule: Some(schedule.parse().unwrap()),
                micro_batches: Some(4),
                ..request_of(false, grid.parse().unwrap(), Reproducible::Run)
            };
            assert!(compare_shardings(&request) > 0);
        }
    }
}

#[test]
fn narrow_and_wide_gradients_equal_them_too() {
    for gradient_wire in [GradientWire::Narrow, GradientWire::Wide] {
        for grid in ["data=2", "z=2,data=2", "z=2,pipeline=2"] {
            let request = Request {
                gradient_wire,
                precision: Precision::Bf16,
                ..request(grid.parse().unwrap(), Reproducible::Run)
            };
            compare_shardings(&request);
        }
    }
}

#[test]
fn those_of_state_beyond_the_device_equal_them_too() {
    for kind in [PlaceKind::Host, PlaceKind::Files] {
        for (precision, optimiser) in [
            (Precision::F32, OptimiserKind::AdamW),
            (Precision::Bf16, OptimiserKind::AdamW),
            (Precision::Bf16, OptimiserKind::Muon),
        ] {
            for grid in ["x=2", "z=2,data=2", "data=2,pipeline=2"] {
                let request = Request {
                    precision,
                    optimiser,
                    state_places: vec![StatePlaceKinds {
                        optimiser: kind,
                        ..StatePlaceKinds::DEVICE
                    }],
                    piece_kib: 16,
                    ..request(grid.parse().unwrap(), Reproducible::Run)
                };
                compare_shardings(&request);
            }
        }
    }
}

#[test]
fn those_of_updates_on_the_host_equal_them_too() {
    for kind in [PlaceKind::Host, PlaceKind::Files] {
        for precision in [Precision::F32, Precision::Bf16] {
            for grid in ["x=2", "z=2,data=2", "data=2,pipeline=2"] {
                let request = Request {
                    precision,
                    state_places: vec![StatePlaceKinds {
                        optimiser: kind,
                        update: UpdatePlace::Host,
                        ..StatePlaceKinds::DEVICE
                    }],
                    piece_kib: 16,
                    ..request(grid.parse().unwrap(), Reproducible::Run)
                };
                compare_shardings(&request);
            }
        }
    }
}

#[test]
fn those_of_weights_and_gradients_beyond_the_device_equal_them_too() {
    const D: PlaceKind = PlaceKind::Device;
    const H: PlaceKind = PlaceKind::Host;
    const F: PlaceKind = PlaceKind::Files;
    for places in [[D, H, D], [D, D, F], [F, F, H]] {
        for (precision, optimiser) in [
            (Precision::F32, OptimiserKind::AdamW),
            (Precision::Bf16, OptimiserKind::Muon),
        ] {
            for grid in ["x=2", "z=2,data=2", "data=2,pipeline=2"] {
                for bits in [Reproducible::Run, Reproducible::Grid] {
                    let request = Request {
                        precision,
                        optimiser,
                        state_places: vec![places.into()],
                        piece_kib: 16,
                        ..request(grid.parse().unwrap(), bits)
                    };
                    compare_shardings(&request);
                }
            }
        }
    }
}

#[test]
fn those_of_activations_beyond_the_device_equal_them_too() {
    for kind in [PlaceKind::Host, PlaceKind::Files] {
        for recompute in [false, true] {
            for (grid, schedule) in [
                ("x=2", "1f1b"),
                ("z=2,data=2", "1f1b"),
                ("data=2,pipeline=2", "1f1b"),
                ("pipeline=2", "zb-h1"),
            ] {
                let request = Request {
                    recompute: Some(recompute),
                    schedule: Some(schedule.parse().unwrap()),
                    activation_places: vec![kind],
                    piece_kib: 16,
                    ..request(grid.parse().unwrap(), Reproducible::Run)
                };
                compare_shardings(&request);
            }
        }
    }
}

#[test]
fn those_of_segments_that_differ_in_their_memory_equal_them_too() {
    // Of 10 segments, some stay between those that leave, and recomputed ones are beside both.
    let some = |names: &[&str]| Segments::named(names).unwrap();
    let mixed = [
        (some(&["attention"]), some(&["mlp"]), Segments::None),
        (
            some(&["mlp", "3-4"]),
            some(&["2", "5-6"]),
            some(&["3-4", "8"]),
        ),
        (Segments::None, some(&["1", "6"]), some(&["0"])),
    ];
    for (recompute, host, files) in mixed {
        let memory = ActivationMemory {
            recompute,
            host,
            files,
            ..ActivationMemory::default()
        };
        for (grid, schedule) in [
            ("x=2", "1f1b"),
            ("data=2,pipeline=2", "1f1b"),
            ("pipeline=2", "zb-h1"),
            ("z=2,pipeline=2", "interleaved:2"),
        ] {
            let request = Request {
                schedule: Some(schedule.parse().unwrap()),
                piece_kib: 16,
                ..request(grid.parse().unwrap(), Reproducible::Run)
            };
            let segments = request.work.memory(&memory).unwrap();
            let request = Request {
                segments: Some(segments.into()),
                ..request
            };
            compare_shardings(&request);
        }
    }
}

#[test]
fn a_limit_of_memory_is_that_of_the_real_run() {
    let mut request = request("x=2".parse().unwrap(), Reproducible::Run);
    let candidate = enumerate::candidates(&request)[0].clone();
    let need = simulate(&request, &candidate, false).unwrap().stages[0]
        .memory
        .peak;
    let real = real(&candidate.config(&request));
    assert_eq!(real[0].1.peak, need);
    // The copy for a checkpoint lies in the same memory, because the machine's devices are hosts.
    let snapshot = simulate(&request, &candidate, false)
        .unwrap()
        .snapshot_bytes();
    request.memory_limit = Some(need + snapshot + snapshot / 8 + 4096);
    assert!(simulate(&request, &candidate, false).is_ok());
    request.memory_limit = Some(need - 1);
    let error = simulate(&request, &candidate, false)
        .unwrap_err()
        .to_string();
    assert!(error.contains("out of memory"), "{error}");
}

#[test]
fn those_of_other_optimisers_equal_them_too() {
    let grids = [
        "x=2",
        "z=2",
        "data=2",
        "y=2,data=2",
        "x=2,y=2,z=2",
        "x=2,data=2,pipeline=2",
    ];
    let grids = grids.map(|text| text.parse().unwrap());
    let optimisers = [
        OptimiserKind::Muon,
        OptimiserKind::AdamW8bit,
        OptimiserKind::Adafactor,
    ];
    for (degrees, optimiser) in grids
        .iter()
        .flat_map(|grid| optimisers.map(|one| (*grid, one)))
    {
        for bits in [Reproducible::Run, Reproducible::Grid] {
            let request = Request {
                optimiser,
                ..request(degrees, bits)
            };
            let compared = compare_shardings(&request);
            assert_eq!(compared, if degrees.data > 1 { 3 } else { 1 });
        }
    }
}

#[test]
fn those_of_frozen_and_adapted_models_equal_them_too() {
    let tunings = testkit::tunings(4, &["embedding.*", "blocks.0.*"]);
    let grids = [
        "x=2",
        "z=2",
        "y=2,data=2",
        "x=2,y=2,z=2",
        "x=2,context=2,pipeline=2",
    ];
    let both = [Reproducible::Run, Reproducible::Grid];
    for (row, grid) in grids.iter().enumerate() {
        for (column, tuning) in tunings.iter().enumerate() {
            for bits in testkit::in_turn(row + column, both) {
                let request = request(grid.parse().unwrap(), bits);
                let request = request.with_tuning(tuning).unwrap();
                assert!(compare_shardings(&request) > 0);
            }
        }
    }
}
