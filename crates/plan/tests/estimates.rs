//! Closed-form estimates against simulations: memory is a lower bound, and time is close.

use fascicle_plan::{Preset, Request, StatePlaceKinds, enumerate, estimate, simulate};
use grid::machine::Machine;
use parallel::{
    data::UpdatePlace,
    memory::{ActivationMemory, Segments},
};
use testkit::in_turn;
use train::config::{OptimiserKind, PlaceKind};

const CASES: [(&str, usize, &str, &str); 9] = [
    ("perlmutter", 512, "gpt-5b", "x=4,z=8,data=16"),
    ("perlmutter", 512, "gpt-5b", "z=32,data=16"),
    ("perlmutter", 1024, "gpt-20b", "x=2,y=2,z=16,data=16"),
    ("perlmutter", 4096, "gpt-40b", "x=4,z=32,data=32"),
    ("perlmutter", 1024, "gpt-20b", "x=4,data=64,pipeline=4"),
    ("frontier", 512, "gpt-5b", "x=8,z=4,data=16"),
    ("frontier", 4096, "gpt-40b", "x=4,y=2,z=32,data=16"),
    ("frontier", 1024, "gpt-10b", "z=64,data=16"),
    ("alps", 1024, "gpt-10b", "x=2,z=16,data=32"),
];

// One candidate of each kind, with few micro-batches, in two orders.
fn candidates(request: &Request) -> Vec<fascicle_plan::Candidate> {
    let mut seen = Vec::new();
    let few = |candidate: &fascicle_plan::Candidate| candidate.micro_batches <= 8;
    let all = enumerate::candidates(request).into_iter().filter(few);
    let mut new = |candidate: &fascicle_plan::Candidate| {
        let kind = (
            candidate.memory.recomputes_all(),
            candidate.sharding,
            candidate.keep_gathered,
            candidate.sequence_parallel,
            candidate.context_attention,
        );
        let count = seen.iter().filter(|other| **other == kind).count();
        seen.push(kind);
        count < 2
    };
    all.filter(|candidate| new(candidate)).collect()
}

#[test]
fn memory_is_a_bound_and_time_is_near() {
    for case in CASES {
        near(
            case,
            OptimiserKind::AdamW,
            &[Preset::Ours, Preset::PublishedAxonn],
        );
    }
}

#[test]
fn that_holds_for_sequences_that_are_cut() {
    for case in [
        ("perlmutter", 512, "gpt-5b", "x=4,z=8,context=2,data=8"),
        ("perlmutter", 1024, "gpt-20b", "z=32,context=8,data=4"),
        ("frontier", 512, "gpt-5b", "x=8,z=4,context=4,data=4"),
    ] {
        near(case, OptimiserKind::AdamW, &[Preset::Ours]);
    }
}

#[test]
fn that_holds_for_matrices_that_are_updated_as_a_whole() {
    for case in [CASES[0], CASES[2], CASES[5]] {
        near(case, OptimiserKind::Muon, &[Preset::Ours]);
    }
}

#[test]
fn that_holds_for_means_of_rows_and_columns() {
    for case in [CASES[0], CASES[2], CASES[5]] {
        near(case, OptimiserKind::Adafactor, &[Preset::Ours]);
    }
}

#[test]
fn that_holds_for_state_and_activations_beyond_the_device() {
    for (optimiser_place, activation_place, optimiser) in [
        (PlaceKind::Host, PlaceKind::Device, OptimiserKind::AdamW),
        (PlaceKind::Files, PlaceKind::Device, OptimiserKind::AdamW),
        (PlaceKind::Files, PlaceKind::Device, OptimiserKind::Muon),
        (PlaceKind::Device, PlaceKind::Host, OptimiserKind::AdamW),
        (PlaceKind::Host, PlaceKind::Files, OptimiserKind::AdamW),
    ] {
        for case in [CASES[0], CASES[5]] {
            near_changed(case, optimiser, &[Preset::Ours], |request| Request {
                state_places: vec![StatePlaceKinds {
                    optimiser: optimiser_place,
                    ..StatePlaceKinds::DEVICE
                }],
                activation_places: vec![activation_place],
                ..request
            });
        }
    }
}

// 3D grids of two machines, and a pipeline.
const THREE: [(&str, usize, &str, &str); 3] = [CASES[0], CASES[4], CASES[5]];

#[test]
fn that_holds_for_updates_on_the_host() {
    for (number, (optimiser_place, optimiser)) in [
        (PlaceKind::Host, OptimiserKind::AdamW),
        (PlaceKind::Host, OptimiserKind::Lion),
        (PlaceKind::Files, OptimiserKind::AdamW),
    ]
    .into_iter()
    .enumerate()
    {
        for case in in_turn(number, THREE) {
            near_changed(case, optimiser, &[Preset::Ours], |request| Request {
                state_places: vec![StatePlaceKinds {
                    optimiser: optimiser_place,
                    update: UpdatePlace::Host,
                    ..StatePlaceKinds::DEVICE
                }],
                activation_places: vec![PlaceKind::Device],
                ..request
            });
        }
    }
}

#[test]
fn that_holds_for_weights_and_gradients_beyond_the_device() {
    const D: PlaceKind = PlaceKind::Device;
    const H: PlaceKind = PlaceKind::Host;
    const F: PlaceKind = PlaceKind::Files;
    for (number, (kinds, optimiser)) in [
        ([D, H, D], OptimiserKind::AdamW),
        ([D, D, H], OptimiserKind::AdamW),
        ([D, H, H], OptimiserKind::AdamW),
        ([H, H, H], OptimiserKind::AdamW),
        ([F, F, F], OptimiserKind::AdamW),
    ]
    .into_iter()
    .enumerate()
    {
        for case in in_turn(number, THREE) {
            near_changed(case, optimiser, &[Preset::Ours], |request| Request {
                state_places: vec![kinds.into()],
                activation_places: vec![D],
                ..request
            });
        }
    }
}

#[test]
fn that_holds_for_segments_that_differ_in_their_memory() {
    let some = |names: &[&str]| Segments::named(names).unwrap();
    for (recompute, host) in [
        (some(&["attention"]), Segments::None),
        (some(&["1-20"]), Segments::None),
        (some(&["attention"]), some(&["mlp"])),
        (some(&["1-10"]), some(&["15-20", "23"])),
    ] {
        let memory = ActivationMemory {
            recompute,
            host,
            ..ActivationMemory::default()
        };
        for case in [CASES[0], CASES[5]] {
            near_changed(case, OptimiserKind::AdamW, &[Preset::Ours], |request| {
                let segments = request.work.memory(&memory).unwrap();
                Request {
                    segments: Some(segments.into()),
                    ..request
                }
            });
        }
    }
}

#[test]
fn that_holds_for_frozen_and_adapted_models() {
    let tunings = testkit::tunings(16, &["embedding.*", "blocks.1.*"]);
    for (number, tuning) in tunings.iter().enumerate() {
        for case in in_turn(number, THREE) {
            near_changed(case, OptimiserKind::AdamW, &[Preset::Ours], |request| {
                Request {
                    state_places: vec![StatePlaceKinds::DEVICE],
                    activation_places: vec![PlaceKind::Device],
                    ..request
                }
                .with_tuning(tuning)
                .unwrap()
            });
        }
    }
}

fn near(case: (&str, usize, &str, &str), optimiser: OptimiserKind, presets: &[Preset]) {
    near_changed(case, optimiser, presets, |request| Request {
        state_places: vec![StatePlaceKinds::DEVICE],
        activation_places: vec![PlaceKind::Device],
        ..request
    });
}

fn near_changed(
    (machine, devices, model, grid): (&str, usize, &str, &str),
    optimiser: OptimiserKind,
    presets: &[Preset],
    change: impl Fn(Request) -> Request,
) {
    {
        let mut machine = Machine::find(machine).unwrap();
        machine.device.memory_gib.value = 4096.0;
        let mut files = machine.device.host_gbps.clone();
        files.value /= 8.0;
        machine.device.files_gbps = Some(files);
        let (name, config) = fascicle_plan::model::find(model, &families::families()).unwrap();
        let model = config.model;
        for &preset in presets {
            let degrees = Some(grid.parse().unwrap());
            let request = Request {
                preset,
                optimiser,
                grid: degrees,
                ..Request::new(machine.clone(), devices, &*name, model.clone()).unwrap()
            };
            let request = change(request);
            for candidate in candidates(&request) {
                let outcome = simulate(&request, &candidate, false).unwrap();
                let (memory, step) = (
                    estimate::memory(&request, &candidate),
                    estimate::step(&request, &candidate),
                );
                let (real, share) = (outcome.memory() as f64, memory / outcome.memory() as f64);
                let what = format!("{} {grid} {candidate:?}", machine.name);
                // Where activations leave, what a running segment needs for itself is most of the memory, and a segment's
                // activations move beside another one's compute; both are counted in part.
                // Of weights and gradients beyond the device, the buckets that are on it are left out.
                let all_beyond = candidate
                    .places
                    .named()
                    .iter()
                    .all(|(_, place)| *place != PlaceKind::Device);
                let (least_memory, least_step) = match candidate.memory.all().map(|all| all.place) {
                    Some(PlaceKind::Device) if all_beyond => (0.7, 0.75),
                    Some(PlaceKind::Device) => (0.75, 0.88),
                    _ => (0.4, 0.75),
                };
                assert!(
                    (least_memory..=1.0).contains(&share),
                    "{what}: {memory} of {real} bytes"
                );
                let share = step / outcome.step_s;
                assert!(
                    (least_step..1.12).contains(&share),
                    "{what}, {optimiser:?}: {step} of {} s",
                    outcome.step_s
                );
            }
        }
    }
}
