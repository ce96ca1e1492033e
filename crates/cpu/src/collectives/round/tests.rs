//! Every order in which two or three members can go through the steps of their calls, one after another.
//!
//! A step is atomic: arriving, withdrawing and leaving (under the group's lock), taking a piece, doing it. A
//! member that finds nothing to do is blocked until its signal has changed, so a missing wake-up appears as a
//! schedule in which nobody can continue.

use super::*;
use crate::collectives::group::{Counters, Group, Key, Ticket};
use hal::{DType, RawSlice, ReduceOp};
use std::sync::Arc;

/// The next operation of a member.
#[derive(Clone)]
enum Op {
    /// Collectives of one call.
    Call(Vec<Asked>),
    /// The same, by a member that may give up whenever it finds nothing to do.
    Impatient(Vec<Asked>),
    Leave,
}

#[derive(Clone, Copy)]
enum Asked {
    Barrier,
    /// A reduction of this many elements.
    Reduce(usize),
    Send(usize),
    Recv(usize),
}

struct Player {
    rank: usize,
    program: Vec<Op>,
    counters: Counters,
    buffer: Vec<u32>,
    tickets: Vec<Ticket>,
    rounds: Vec<Arc<Round>>,
    // The value of its signal that it saw before it looked for something to do; `None` until then.
    seen: Option<u64>,
    // It found nothing.
    blocked: bool,
    // The round and the piece that it has taken and not done.
    piece: Option<(usize, usize)>,
    outcomes: Vec<(Key, Result<()>)>,
}

impl Player {
    fn new(rank: usize, program: &[Op], size: usize) -> Player {
        Player {
            rank,
            program: program.iter().rev().cloned().collect(),
            counters: Counters::new(size),
            buffer: vec![rank as u32 + 1; 9000],
            tickets: vec![],
            rounds: vec![],
            seen: None,
            blocked: false,
            piece: None,
            outcomes: vec![],
        }
    }

    fn may_step(&self, group: &Group) -> bool {
        let changed = !self.blocked || self.seen != Some(group.signal(self.rank).seen());
        match self.program.last() {
            None => false,
            Some(Op::Impatient(_)) => {
                changed || self.rounds.iter().any(|round| round.is_gathering())
            }
            Some(_) => changed,
        }
    }

    fn step(&mut self, group: &Group) {
        match self.program.last().cloned() {
            Some(Op::Leave) => {
                group.leave(self.rank, self.counters.clone());
                self.program.pop();
            }
            Some(Op::Call(asked) | Op::Impatient(asked)) => self.step_in_call(group, &asked),
            None => unreachable!(),
        }
    }

    fn step_in_call(&mut self, group: &Group, asked: &[Asked]) {
        if self.tickets.is_empty() {
            self.tickets = asked.iter().map(|&asked| self.ticket(asked)).collect();
        }
        if let Some(ticket) = self.tickets.get(self.rounds.len()) {
            // SAFETY: the buffers live as long as the schedule.
            self.rounds.push(unsafe { group.come(ticket) });
        } else if let Some((round, piece)) = self.piece.take() {
            self.perform(group, round, piece);
        } else if self.blocked && self.seen == Some(group.signal(self.rank).seen()) {
            self.lose_patience(group);
        } else if self.blocked || self.seen.is_none() {
            (self.seen, self.blocked) = (Some(group.signal(self.rank).seen()), false);
        } else {
            self.look();
        }
    }

    // Takes a piece of the first round that has one; if there is none, the call ends or blocks.
    fn look(&mut self) {
        let take = |round: &Arc<Round>| round.outcome.get()?.as_ref().ok()?.take();
        self.piece = self
            .rounds
            .iter()
            .enumerate()
            .find_map(|(index, round)| Some((index, take(round)?)));
        if self.piece.is_some() {
            return;
        }
        self.blocked = true;
        if self
            .rounds
            .iter()
            .all(|round| matches!(round.progress(), Progress::Ended(_)))
        {
            self.end_call();
        }
    }

    fn end_call(&mut self) {
        for (ticket, round) in self.tickets.drain(..).zip(self.rounds.drain(..)) {
            let Progress::Ended(outcome) = round.progress() else {
                unreachable!()
            };
            self.outcomes.push((ticket.key, outcome));
        }
        (self.seen, self.blocked) = (None, false);
        self.program.pop();
    }

    fn perform(&mut self, group: &Group, round: usize, piece: usize) {
        let Some(Ok(work)) = self.rounds[round].outcome.get() else {
            unreachable!()
        };
        if work.perform(piece, self.rank) {
            (0..group.size()).for_each(|rank| group.signal(rank).raise());
        }
    }

    fn lose_patience(&mut self, group: &Group) {
        for (ticket, _) in self
            .tickets
            .iter()
            .zip(&self.rounds)
            .filter(|(_, round)| round.is_gathering())
        {
            group.withdraw(ticket.key, |missing| Error::Aborted {
                rank: self.rank,
                reason: format!("{missing:?}"),
            });
        }
    }

    fn ticket(&mut self, asked: Asked) -> Ticket {
        let next = |counter: &mut u64| std::mem::replace(counter, *counter + 1);
        let part = |len| RawSlice {
            addr: self.buffer.as_ptr() as u64,
            len,
            dtype: DType::U32,
        };
        let (counters, rank) = (&mut self.counters, self.rank);
        let (key, place, call) = match asked {
            Asked::Barrier => (
                Key::Collective(next(&mut counters.collectives)),
                rank,
                Collective::Barrier,
            ),
            Asked::Reduce(len) => {
                let call = Collective::AllReduce {
                    buffer: part(len),
                    op: ReduceOp::Sum,
                };
                (Key::Collective(next(&mut counters.collectives)), rank, call)
            }
            Asked::Send(to) => {
                let key = Key::Message {
                    from: rank,
                    to,
                    number: next(&mut counters.sent[to]),
                };
                (
                    key,
                    0,
                    Collective::Send {
                        buffer: part(1),
                        to,
                    },
                )
            }
            Asked::Recv(from) => {
                let key = Key::Message {
                    from,
                    to: rank,
                    number: next(&mut counters.received[from]),
                };
                (
                    key,
                    1,
                    Collective::Recv {
                        buffer: part(1),
                        from,
                    },
                )
            }
        };
        Ticket { key, place, call }
    }
}

/// Runs every schedule of the programs, and passes to `check` what each member observed in each schedule.
fn explore(programs: &[&[Op]], mut check: impl FnMut(&[Player])) -> usize {
    // The choice at each step, and the number of choices there.
    let mut schedule: Vec<(usize, usize)> = vec![];
    for count in 1.. {
        check(&play(programs, &mut schedule));
        while schedule
            .pop_if(|(choice, choices)| *choice + 1 == *choices)
            .is_some()
        {}
        match schedule.last_mut() {
            Some((choice, _)) => *choice += 1,
            None => return count,
        }
    }
    unreachable!()
}

fn play(programs: &[&[Op]], schedule: &mut Vec<(usize, usize)>) -> Vec<Player> {
    let size = programs.len();
    let group = Group::new("model".into(), (0..size).collect());
    (0..size).for_each(|rank| assert!(group.admit(rank)));
    let mut players: Vec<Player> = programs
        .iter()
        .enumerate()
        .map(|(rank, program)| Player::new(rank, program, size))
        .collect();
    for step in 0.. {
        let able: Vec<usize> = (0..size)
            .filter(|&rank| players[rank].may_step(&group))
            .collect();
        if able.is_empty() {
            break;
        }
        if step == schedule.len() {
            schedule.push((0, able.len()));
        }
        let chosen = able[schedule[step].0];
        let calls = players[chosen].outcomes.len();
        players[chosen].step(&group);
        nobody_works_for(&players, calls, chosen);
    }
    let stuck: Vec<_> = players
        .iter()
        .filter(|player| !player.program.is_empty())
        .map(|p| p.rank)
        .collect();
    assert!(stuck.is_empty(), "{stuck:?} wait for ever in {schedule:?}");
    all_hear_the_same(&players);
    players
}

// A member that has just left a call may free its buffers, so nobody works on a piece of its rounds.
fn nobody_works_for(players: &[Player], calls: usize, left: usize) {
    for (key, _) in &players[left].outcomes[calls..] {
        let works = |player: &Player| {
            player
                .piece
                .is_some_and(|(round, _)| player.tickets[round].key == *key)
        };
        assert!(
            !players.iter().any(works),
            "{left} left {key:?} under a peer's hands"
        );
    }
}

fn all_hear_the_same(players: &[Player]) {
    let heard: Vec<_> = players.iter().flat_map(|player| &player.outcomes).collect();
    for (key, outcome) in &heard {
        assert!(
            heard
                .iter()
                .all(|(other, heard)| other != key || heard == outcome),
            "{key:?}: {heard:?}"
        );
    }
}

fn all_well(players: &[Player]) {
    assert!(
        players
            .iter()
            .flat_map(|player| &player.outcomes)
            .all(|(_, outcome)| outcome.is_ok())
    );
}

#[test]
fn the_pieces_of_a_reduction_are_done_once_before_anyone_leaves() {
    // Two pieces, one, none.
    for (len, at_least) in [(9000, 500), (3, 50), (0, 5)] {
        let program = [Op::Call(vec![Asked::Reduce(len)])];
        let schedules = explore(&[&program, &program], |players| {
            all_well(players);
            assert!(
                players
                    .iter()
                    .all(|player| player.buffer[..len].iter().all(|&x| x == 3))
            );
        });
        assert!(schedules > at_least, "{schedules}");
    }
}

#[test]
fn three_members_reduce() {
    let program = [Op::Call(vec![Asked::Reduce(2)])];
    explore(&[&program, &program, &program], |players| {
        all_well(players);
        assert!(players.iter().all(|player| player.buffer[..2] == [6, 6]));
    });
}

#[test]
fn a_member_that_withdraws_ends_the_round_for_all_or_for_nobody() {
    let (patient, impatient) = (
        [Op::Call(vec![Asked::Barrier])],
        [Op::Impatient(vec![Asked::Barrier])],
    );
    let (mut well, mut ill) = (0, 0);
    explore(&[&patient, &impatient, &impatient], |players| {
        let failed = players[0].outcomes[0].1.is_err();
        *(if failed { &mut ill } else { &mut well }) += 1;
    });
    assert!(well > 0 && ill > 0);
}

#[test]
fn a_withdrawal_between_two_calls_reaches_the_second() {
    let twice = |op: fn(Vec<Asked>) -> Op| [op(vec![Asked::Reduce(1)]), op(vec![Asked::Barrier])];
    explore(&[&twice(Op::Call), &twice(Op::Impatient)], |players| {
        for player in players {
            assert!(player.outcomes[0].1.is_ok() || player.outcomes[1].1.is_err());
        }
    });
}

#[test]
fn nothing_in_a_call_waits_for_the_rest_of_it() {
    let both = [Op::Call(vec![Asked::Recv(1), Asked::Reduce(1)])];
    let (send, reduce) = (
        Op::Call(vec![Asked::Send(0)]),
        Op::Call(vec![Asked::Reduce(1)]),
    );
    explore(&[&both, &[send.clone(), reduce.clone()]], all_well);
    explore(&[&both, &[reduce, send]], all_well);
}

#[test]
fn a_member_that_leaves_ends_the_calls_that_miss_it() {
    let stays = [
        Op::Call(vec![Asked::Barrier]),
        Op::Call(vec![Asked::Barrier]),
    ];
    let leaves = [Op::Call(vec![Asked::Barrier]), Op::Leave];
    explore(&[&stays, &leaves], |players| {
        assert_eq!(players[1].outcomes, [(Key::Collective(0), Ok(()))]);
        assert!(players[0].outcomes[0].1.is_ok());
        assert!(matches!(
            players[0].outcomes[1].1,
            Err(Error::Aborted { rank: 1, .. })
        ));
    });
}

#[test]
fn members_that_leave_after_their_last_call_disturb_nobody() {
    let program = [Op::Call(vec![Asked::Reduce(1)]), Op::Leave];
    explore(&[&program, &program], all_well);
}

#[test]
fn different_calls_end_in_the_same_mismatch() {
    let program = |len| [Op::Call(vec![Asked::Reduce(len)])];
    explore(&[&program(1), &program(1), &program(2)], |players| {
        let found = |player: &Player| matches!(player.outcomes[0].1, Err(Error::Mismatch { .. }));
        assert!(players.iter().all(found));
    });
}
