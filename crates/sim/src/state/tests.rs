use super::{Cost, SimState};
use crate::{
    cost::Costs,
    work::{Category, Label, Reason},
};
use grid::machine::{Cost as Transfer, Machine};
use hal::{DeviceId, StreamKind, VendorId};
use proptest::prelude::*;
use std::sync::Arc;

const NUM_LANES: usize = 3;

// One piece of a random program: its stream and its kind.
#[derive(Clone, Copy, Debug)]
enum Piece {
    Compute(usize, f64),
    Transfer(usize, Transfer),
    Wait { lane: usize, on: usize },
    Synchronize(usize),
}

// Compute work on one stream and transfers on the others. Each stream has its own links unless `shared`.
fn pieces(shared: bool) -> impl Strategy<Value = Vec<Piece>> {
    let seconds = || 1e-6..1e-3f64;
    let transfer = move |(lane, latency_s, transfer_s): (usize, f64, f64)| {
        let (in_node, network) = (lane == 1 || shared, lane == 2);
        Piece::Transfer(
            lane,
            Transfer {
                latency_s,
                transfer_s,
                in_node,
                network,
            },
        )
    };
    let piece = prop_oneof![
        seconds().prop_map(|seconds| Piece::Compute(0, seconds)),
        (1..NUM_LANES, seconds(), seconds()).prop_map(transfer),
        (0..NUM_LANES, 0..NUM_LANES).prop_map(|(lane, on)| Piece::Wait { lane, on }),
        (0..NUM_LANES).prop_map(Piece::Synchronize),
    ];
    prop::collection::vec(piece, 1..40)
}

fn state(slowdown: f64) -> SimState {
    let machine = Machine::find("perlmutter").unwrap();
    let id = DeviceId {
        vendor: VendorId::SIM,
        ordinal: 0,
    };
    let mut state = SimState {
        slowdown,
        ..SimState::new(id, &Costs::new(Arc::new(machine), 1), Arc::default())
    };
    for kind in [
        StreamKind::Compute,
        StreamKind::Communication,
        StreamKind::Communication,
    ] {
        state.add_lane(kind);
    }
    state
}

fn label(state: &mut SimState, lane: usize) -> Label {
    let group = (lane > 0).then(|| state.group(&format!("links {lane}")));
    let category = if lane > 0 {
        Category::Collective
    } else {
        Category::Matmuls
    };
    Label {
        name: "piece",
        category,
        group,
        bytes: 1,
        flop: 1.0,
    }
}

fn run(state: &mut SimState, pieces: &[Piece]) {
    for piece in pieces {
        match *piece {
            Piece::Compute(lane, seconds) => {
                let label = label(state, lane);
                state.run(lane, label, Cost::Compute(seconds)).unwrap();
            }
            Piece::Transfer(lane, transfer) => {
                let label = label(state, lane);
                state.run(lane, label, Cost::Transfer(transfer)).unwrap();
            }
            Piece::Wait { lane, on } => {
                let event = state.record(on).unwrap();
                state.wait(lane, event).unwrap();
                state.forget(event);
            }
            Piece::Synchronize(lane) => {
                let at = state.lane_time(lane).unwrap();
                state.host_reaches(at);
            }
        }
    }
}

fn ends(slowdown: f64, pieces: &[Piece]) -> Vec<f64> {
    let mut state = state(slowdown);
    run(&mut state, pieces);
    let mut ends: Vec<f64> = (0..NUM_LANES)
        .map(|lane| state.lane_time(lane).unwrap())
        .collect();
    ends.push(state.host);
    ends
}

proptest! {
    #[test]
    fn the_parts_of_a_breakdown_add_up(
        (before, during) in (pieces(true), pieces(true)),
        slowdown in 0.0..0.5f64,
    ) {
        let mut state = state(slowdown);
        run(&mut state, &before);
        state.begin().unwrap();
        let begin = state.begin;
        run(&mut state, &during);
        let breakdown = state.finish().unwrap();
        let parts = breakdown.compute_s() + breakdown.exposed_s() + breakdown.bubble_s + breakdown.host_s;
        prop_assert!((breakdown.total_s - (state.now().unwrap() - begin)).abs() < 1e-12);
        prop_assert!((parts - breakdown.total_s).abs() < 1e-9, "{parts} of {}: {breakdown:?}", breakdown.total_s);
        prop_assert!(breakdown.bubble_s == 0.0, "no message, no bubble");
    }

    #[test]
    fn the_account_does_not_move_clocks(pieces in pieces(true), at in 0..40usize) {
        let at = at.min(pieces.len());
        let mut state = state(0.1);
        state.keep_log(true);
        run(&mut state, &pieces[..at]);
        state.finish().unwrap();
        run(&mut state, &pieces[at..]);
        let lanes: Vec<f64> = (0..NUM_LANES).map(|lane| state.lane_time(lane).unwrap()).collect();
        prop_assert_eq!(&lanes[..], &ends(0.1, &pieces)[..NUM_LANES]);
        let log = state.take_log();
        prop_assert!(log.iter().all(|work| work.start_s <= work.end_s));
        for lane in 0..NUM_LANES {
            let own: Vec<_> = log.iter().filter(|work| work.stream == lane).collect();
            prop_assert!(own.windows(2).all(|pair| pair[0].end_s <= pair[1].start_s), "a stream is in order");
        }
    }

    // Streams that share no link and take nothing from compute only wait for each other, so less work never
    // ends later.
    #[test]
    fn fewer_bytes_and_less_latency_never_end_later(
        pieces in pieces(false),
        (compute, latency, bytes) in (0.1..1.0f64, 0.1..1.0f64, 0.1..1.0f64),
    ) {
        let faster = |piece: &Piece| match *piece {
            Piece::Compute(lane, seconds) => Piece::Compute(lane, seconds * compute),
            Piece::Transfer(lane, Transfer { latency_s, transfer_s, in_node, network }) => {
                let (latency_s, transfer_s) = (latency_s * latency, transfer_s * bytes);
                Piece::Transfer(lane, Transfer { latency_s, transfer_s, in_node, network })
            }
            other => other,
        };
        let less: Vec<Piece> = pieces.iter().map(faster).collect();
        for (fast, slow) in ends(0.0, &less).iter().zip(ends(0.0, &pieces)) {
            prop_assert!(*fast <= slow + 1e-12, "{fast} {slow}");
        }
    }

    // With shared links and slowed compute, a program takes at most as long as all of its work one after
    // another.
    #[test]
    fn sharing_costs_no_more_than_taking_turns(pieces in pieces(true), slowdown in 0.0..0.5f64) {
        let apart = ends(0.0, &pieces.iter().copied().filter(|p| !matches!(p, Piece::Transfer(..))).collect::<Vec<_>>());
        let shared = ends(slowdown, &pieces);
        let transfers: f64 = pieces.iter().map(|piece| match piece {
            Piece::Transfer(_, t) => t.latency_s + t.transfer_s,
            _ => 0.0,
        }).sum();
        let latest = |ends: &[f64]| ends.iter().copied().fold(0.0, f64::max);
        let launches = pieces.len() as f64 * 6e-6;
        prop_assert!(latest(&shared) <= latest(&apart) + transfers * (1.0 + slowdown) + launches);
    }
}

#[test]
fn idle_time_is_put_down_to_what_was_waited_for() {
    let mut state = state(0.0);
    let (compute, links) = (label(&mut state, 0), label(&mut state, 1));
    state.keep_log(true);
    state.run(0, compute, Cost::Compute(1.0)).unwrap();
    let transfer = Transfer {
        latency_s: 0.0,
        transfer_s: 3.0,
        in_node: true,
        network: false,
    };
    state.run(1, links, Cost::Transfer(transfer)).unwrap();
    let event = state.record(1).unwrap();
    state.wait(0, event).unwrap();
    state.run(0, compute, Cost::Compute(1.0)).unwrap();
    let breakdown = state.finish().unwrap();
    assert!((breakdown.matmuls_s - 2.0).abs() < 1e-9, "{breakdown:?}");
    assert!(
        (breakdown.groups[0].exposed_s - 2.0).abs() < 1e-4,
        "{breakdown:?}"
    );
    assert!(
        (breakdown.groups[0].hidden_s() - 1.0).abs() < 1e-4,
        "{breakdown:?}"
    );
    assert_eq!(&*breakdown.groups[0].label, "links 1");
    let log = state.take_log();
    let gap = log[2].gap.unwrap();
    assert_eq!((log.len(), gap.reason), (3, Reason::Group(0)));
    assert!((gap.seconds - 2.0).abs() < 1e-4, "{gap:?}");
}

#[test]
fn a_host_that_is_slow_holds_the_device_up() {
    let mut state = state(0.0);
    let compute = label(&mut state, 0);
    for _ in 0..1000 {
        state.run(0, compute, Cost::Compute(1e-9)).unwrap();
    }
    let breakdown = state.finish().unwrap();
    assert!((state.host - 1000.0 * state.launch_host).abs() < 1e-9);
    assert!(
        (breakdown.total_s - state.host).abs() < 1e-6
            && breakdown.host_s > 0.99 * breakdown.total_s
    );
}
