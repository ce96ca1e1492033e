//! Models that do not fit the memory of their devices.

use fascicle_plan::{Candidate, Plan, Request, StatePlaceKinds, estimate, search};
use grid::machine::Machine;
use parallel::{data::UpdatePlace, pipeline::ScheduleKind};
use std::time::Duration;
use train::config::{OptimiserKind, PlaceKind};

/// A model of 10 billion parameters on one node of A100 with 40 GB each.
fn request() -> Request {
    named("gpt-10b")
}

fn named(model: &str) -> Request {
    let (name, config) = fascicle_plan::model::find(model, &families::families()).unwrap();
    Request {
        batch: 8,
        budget: Duration::from_secs(4),
        ..Request::new(Machine::find("perlmutter").unwrap(), 4, name, config.model).unwrap()
    }
}

fn places(plan: &Plan) -> Vec<(StatePlaceKinds, PlaceKind)> {
    let chosen = plan.best.iter().map(|outcome| &outcome.candidate);
    let of_all = |candidate: &Candidate| candidate.memory.all().unwrap_or_default().place;
    chosen
        .map(|candidate| (candidate.places, of_all(candidate)))
        .collect()
}

fn on_devices(request: &Request) -> Request {
    Request {
        state_places: vec![StatePlaceKinds::DEVICE],
        activation_places: vec![PlaceKind::Device],
        ..request.clone()
    }
}

#[test]
fn what_does_not_fit_the_devices_is_planned_with_the_host() {
    let request = request();
    let refused = search(&on_devices(&request)).unwrap_err().to_string();
    assert!(refused.contains("it needs at least"), "{refused}");
    let plan = search(&request).unwrap();
    assert!(!plan.best.is_empty());
    let on_host = request.machine.device.host_memory_bytes().unwrap();
    for (outcome, places) in plan.best.iter().zip(places(&plan)) {
        assert!(outcome.memory() <= request.machine.device.memory_bytes());
        let there = estimate::on_host(&request, &outcome.candidate);
        assert!(there + outcome.snapshot_bytes() as f64 <= on_host as f64);
        assert_ne!(places, (StatePlaceKinds::DEVICE, PlaceKind::Device));
    }
}

#[test]
fn what_the_host_has_no_room_for_is_out_of_reach() {
    let request = named("gpt-40b");
    let refused = search(&request).unwrap_err().to_string();
    assert!(
        refused.starts_with(
            "gpt-40b does not fit 4 devices of perlmutter with 36.9 GiB each and 60.0 GiB of the host's memory; it needs at least "
        ),
        "{refused}"
    );
    let mut machine = (*request.machine).clone();
    machine.device.host_memory_gib = None;
    let roomy = Request {
        machine: machine.into(),
        ..request
    };
    assert!(!search(&roomy).unwrap().best.is_empty());
}

#[test]
fn a_stage_without_room_ends_a_simulation() {
    let on_16 = Request {
        devices: 16,
        batch: 512,
        grid: Some("x=2,pipeline=8".parse().unwrap()),
        micro_batches: Some(16),
        schedule: Some(ScheduleKind::ZbH1),
        sequence_parallel: Some(true),
        recompute: Some(true),
        machine: Machine::find("frontier").unwrap().into(),
        ..named("gpt-5b")
    };
    // The last stages have no room in the middle of the step, while others wait for their messages.
    let refused = search(&on_devices(&on_16)).unwrap_err().to_string();
    assert!(
        refused.starts_with("gpt-5b does not fit 16 devices of frontier"),
        "{refused}"
    );
}

#[test]
fn what_fits_stays_on_the_devices() {
    let request = Request {
        devices: 64,
        batch: 64,
        ..request()
    };
    let plan = search(&request).unwrap();
    let same = search(&on_devices(&request)).unwrap();
    assert_eq!(plan.best[0].candidate, same.best[0].candidate);
    assert!(
        places(&plan)
            .iter()
            .all(|places| *places == (StatePlaceKinds::DEVICE, PlaceKind::Device))
    );
}

#[test]
fn files_need_a_bandwidth() {
    let mut request = request();
    request.activation_places = vec![PlaceKind::Device, PlaceKind::Files];
    assert_eq!(
        search(&request).unwrap_err().to_string(),
        "placement.activations: found files on perlmutter, needs a machine whose description has device.files_gbps"
    );
}

fn updated_by_host(optimiser: PlaceKind) -> StatePlaceKinds {
    StatePlaceKinds {
        optimiser,
        update: UpdatePlace::Host,
        ..StatePlaceKinds::DEVICE
    }
}

#[test]
fn the_host_updates_where_the_link_is_slow_beside_its_memory() {
    for (host_gbps, update) in [(25.0, UpdatePlace::Device), (4.0, UpdatePlace::Host)] {
        let mut machine = Machine::find("perlmutter").unwrap();
        machine.device.host_gbps.value = host_gbps;
        let request = Request {
            grid: Some("z=4".parse().unwrap()),
            micro_batches: Some(2),
            recompute: Some(true),
            activation_places: vec![PlaceKind::Device],
            machine: machine.into(),
            ..request()
        };
        let plan = search(&request).unwrap();
        let chosen = plan.best[0].candidate.places;
        assert_eq!(chosen.update, update, "at {host_gbps} GB/s: {chosen:?}");
        assert_eq!(chosen.optimiser, PlaceKind::Host);
    }
}

#[test]
fn updates_that_the_host_cannot_make_are_refused() {
    let refused = |change: &dyn Fn(&mut Request)| {
        let mut request = request();
        request.state_places = vec![updated_by_host(PlaceKind::Host)];
        change(&mut request);
        search(&request).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&|request| request.state_places = vec![updated_by_host(PlaceKind::Device)]),
        "placement.update: found host, with state on the device, needs state on the host or in files"
    );
    assert_eq!(
        refused(&|request| request.optimiser = OptimiserKind::Muon),
        "placement.update: found host, with muon, needs adamw, sgd or lion"
    );
    let without = |request: &mut Request| {
        let mut machine = (*request.machine).clone();
        machine.device.host_update_gbps = None;
        request.machine = machine.into();
    };
    assert_eq!(
        refused(&without),
        "placement.update: found host on perlmutter, needs a machine whose description has device.host_update_gbps"
    );
}
