//! The meeting point of the ranks of a local job.

use super::channel::Channel;
use super::exchange::LocalExchange;
use super::stand_ins::StandIns;
use crate::world::Rendezvous;
use hal::sync::atomic::{AtomicBool, Ordering};
use hal::{AbortSignal, Exchange, Result, lock, sync::Mutex};
use std::{collections::HashMap, sync::Arc, time::Duration};

/// State shared by all ranks of the job: which ranks run and which have ended, the abort signal, and the
/// exchanges that only some members have opened.
pub(super) struct Board {
    pub(super) timeout: Duration,
    pub(super) abort: Arc<AbortSignal>,
    pub(super) stand_ins: StandIns,
    world: Arc<Channel>,
    ended: Vec<AtomicBool>,
    bookings: Mutex<HashMap<(String, Vec<usize>), Booking>>,
}

/// The position of `rank` among the live members of a group.
pub(super) fn position(live: &[usize], rank: usize) -> usize {
    let index = live.iter().position(|&member| member == rank);
    index.expect("a bug in Fascicle: only live members open an exchange")
}

/// The exchanges with one label and one list of members, of which only the live members take part.
struct Booking {
    /// Number of exchanges that each member has opened.
    opened: Vec<u64>,
    /// Exchanges that some members have opened and others have not, by number, with the count of openings.
    pending: HashMap<u64, (Arc<Channel>, usize)>,
}

impl Board {
    pub(super) fn new(stand_ins: StandIns, timeout: Duration) -> Self {
        let ended = (0..stand_ins.num_ranks())
            .map(|_| AtomicBool::new(false))
            .collect();
        let world = Arc::new(Channel::new("world", stand_ins.live()));
        let abort = Arc::new(AbortSignal::new());
        Self {
            timeout,
            abort,
            stand_ins,
            world,
            ended,
            bookings: Mutex::default(),
        }
    }

    /// Records that `rank` takes part in no further exchange. A rank that failed has raised the signal before.
    pub(super) fn end(&self, rank: usize) {
        self.ended[rank].store(true, Ordering::Release);
    }

    /// Whether `rank` has ended.
    pub(super) fn has_ended(&self, rank: usize) -> bool {
        self.ended[rank].load(Ordering::Acquire)
    }

    /// This rank's end of the exchange of all ranks.
    pub(super) fn everyone(self: &Arc<Self>, rank: usize) -> LocalExchange {
        LocalExchange::new(
            self.clone(),
            self.world.clone(),
            self.stand_ins.seat_all(),
            (rank, rank),
        )
    }

    /// The next exchange of `members` under `label` for the live member `rank`, the `index`-th of them.
    fn open(
        self: &Arc<Self>,
        label: &str,
        members: &[usize],
        index: usize,
    ) -> Result<LocalExchange> {
        let seating = self.stand_ins.seat(label, members)?;
        let seat = (members[index], index);
        let channel = match &seating.live[..] {
            // No other member takes part, so the exchange needs no number.
            [alone] => Arc::new(Channel::new(label, &[*alone])),
            live => self.book(label, members, live, members[index]),
        };
        Ok(LocalExchange::new(self.clone(), channel, seating, seat))
    }

    fn book(&self, label: &str, members: &[usize], live: &[usize], rank: usize) -> Arc<Channel> {
        let mut bookings = lock(&self.bookings);
        let booking = bookings
            .entry((label.into(), members.to_vec()))
            .or_insert_with(|| Booking::new(live));
        booking.open(label, live, position(live, rank))
    }
}

impl Booking {
    fn new(members: &[usize]) -> Self {
        Self {
            opened: vec![0; members.len()],
            pending: HashMap::new(),
        }
    }

    fn open(&mut self, label: &str, members: &[usize], index: usize) -> Arc<Channel> {
        let number = self.opened[index];
        self.opened[index] += 1;
        let make = || (Arc::new(Channel::new(label, members)), 0);
        let (channel, openings) = self.pending.entry(number).or_insert_with(make);
        *openings += 1;
        let (channel, complete) = (channel.clone(), *openings == members.len());
        if complete {
            self.pending.remove(&number);
        }
        channel
    }
}

/// One rank's access to the board.
pub(super) struct Seat {
    pub(super) board: Arc<Board>,
    pub(super) rank: usize,
}

impl Rendezvous for Seat {
    fn exchange(&self, label: &str, members: &[usize]) -> Result<Arc<dyn Exchange>> {
        let index = members.iter().position(|&member| member == self.rank);
        let index = index.expect("a bug in Fascicle: World::exchange lets only members through");
        Ok(Arc::new(self.board.open(label, members, index)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_meet_in_the_order_of_their_openings_and_nothing_stays_pending() {
        let mut booking = Booking::new(&[4, 7]);
        let first = [
            booking.open("pair", &[4, 7], 0),
            booking.open("pair", &[4, 7], 0),
        ];
        let second = [
            booking.open("pair", &[4, 7], 1),
            booking.open("pair", &[4, 7], 1),
        ];
        assert!(Arc::ptr_eq(&first[0], &second[0]) && Arc::ptr_eq(&first[1], &second[1]));
        assert!(!Arc::ptr_eq(&first[0], &first[1]));
        assert!(booking.pending.is_empty());
    }
}
