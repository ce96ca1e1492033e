//! Two ranks that exchange bytes over one board.

use super::board::{Board, Seat};
use super::stand_ins::StandIns;
use crate::sync::{Waits, explore};
use crate::world::Rendezvous;
use hal::{Error, Exchange};
use loom::thread;
use std::sync::Arc;
use std::time::Duration;

// Longer than any model takes by its clocks, or over after the first wait that expires.
const PATIENT: Duration = Duration::from_secs(3600);
const IMPATIENT: Duration = Duration::from_millis(1);

// The results of two ranks on one board.
fn two<T: 'static>(timeout: Duration, bodies: [fn(&Arc<Board>) -> T; 2]) -> [T; 2] {
    let board = Arc::new(Board::new(StandIns::all_live(2), timeout));
    let ([here, there], of_other) = (bodies, board.clone());
    let other = thread::spawn(move || there(&of_other));
    [here(&board), other.join().unwrap()]
}

fn gather_twice(board: &Arc<Board>, rank: u8) {
    let everyone = board.everyone(rank.into());
    for round in 0..2 {
        let found = everyone.all_gather(&[rank, round]).unwrap();
        assert_eq!(found, [[0, round], [1, round]]);
    }
}

fn gather(board: &Arc<Board>) -> hal::Result<Vec<Vec<u8>>> {
    board.everyone(0).all_gather(&[0])
}

/// Each round gives every rank the parts of that round.
pub fn each_round_has_its_parts() {
    explore(Waits::Notified, 3, || {
        two(
            PATIENT,
            [
                |board| gather_twice(board, 0),
                |board| gather_twice(board, 1),
            ],
        );
    });
}

/// The root of a broadcast waits for nobody, and the other rank waits for the root alone.
pub fn a_broadcast_waits_for_its_root() {
    explore(Waits::Notified, 3, || {
        let body = |board: &Arc<Board>, rank: usize| {
            let everyone = board.everyone(rank);
            assert_eq!(everyone.broadcast(0, &[5]).unwrap(), [5]);
            assert_eq!(everyone.broadcast(1, &[6]).unwrap(), [6]);
        };
        let board = Arc::new(Board::new(StandIns::all_live(2), PATIENT));
        let of_other = board.clone();
        let other = thread::spawn(move || body(&of_other, 1));
        body(&board, 0);
        other.join().unwrap();
    });
}

/// A rank that waits reports the reason of the rank that failed, never that it has merely ended.
pub fn the_reason_of_a_failed_rank_arrives() {
    explore(Waits::Expire, 3, || {
        let fail = |board: &Arc<Board>| {
            board.abort.raise(1, "it failed");
            board.end(1);
            Ok(vec![])
        };
        let [outcome, _] = two(PATIENT, [gather, fail]);
        assert!(
            matches!(outcome, Err(Error::Aborted { rank: 1, .. })),
            "{outcome:?}"
        );
    });
}

/// A rank that waits learns that the other one has returned.
pub fn a_rank_that_returned_is_named() {
    explore(Waits::Expire, 3, || {
        let end = |board: &Arc<Board>| {
            board.end(1);
            Ok(vec![])
        };
        let [outcome, _] = two(PATIENT, [gather, end]);
        assert!(
            matches!(outcome, Err(Error::Mismatch { .. })),
            "{outcome:?}"
        );
    });
}

/// A rank that gives up leaves the parts for the other one.
pub fn a_timeout_keeps_the_parts() {
    explore(Waits::Expire, 3, || {
        let late = |board: &Arc<Board>| board.everyone(1).all_gather(&[1]);
        for outcome in two(IMPATIENT, [gather, late]) {
            match outcome {
                Ok(parts) => assert_eq!(parts, [[0], [1]]),
                Err(error) => assert!(matches!(error, Error::Timeout { .. })),
            }
        }
    });
}

/// Members that open several exchanges under one label meet in the order of their openings.
pub fn openings_meet_in_order() {
    explore(Waits::Notified, 3, || {
        let body = |board: &Arc<Board>, rank: usize| {
            let board = board.clone();
            let seat = Seat { board, rank };
            let opened = [(); 2].map(|()| seat.exchange("pair", &[0, 1]).unwrap());
            for (number, exchange) in (0..).zip(&opened) {
                let all = exchange.all_gather(&[number]).unwrap();
                assert_eq!(all, [[number], [number]]);
            }
        };
        let board = Arc::new(Board::new(StandIns::all_live(2), PATIENT));
        let of_other = board.clone();
        let other = thread::spawn(move || body(&of_other, 1));
        body(&board, 0);
        other.join().unwrap();
    });
}
