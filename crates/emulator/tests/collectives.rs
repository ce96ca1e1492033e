//! NCCL between threads: numbers, groups, division, and what happens when ranks disagree or leave.

mod common;

use common::{Handle, Nvidia, c, nvidia};
use std::{ptr, sync::Barrier, thread};

const F32: i32 = 7;
const SUM: i32 = 0;

#[repr(C)]
#[derive(Clone, Copy)]
struct Id([u8; 128]);

/// One rank: its device, its stream, its communicator.
struct Rank {
    nvidia: &'static Nvidia,
    rank: usize,
    comm: Handle,
    stream: Handle,
}

fn id(nvidia: &Nvidia) -> Id {
    let mut id = Id([0; 128]);
    assert_eq!(c!(nvidia.nccl, ncclGetUniqueId(&mut id => *mut Id)), 0);
    id
}

/// Runs `body` as `size` ranks, each a thread on a device of its own.
fn on_ranks(size: usize, body: impl Fn(&Rank) + Sync) {
    let Some(nvidia) = nvidia() else { return };
    let id = id(nvidia);
    thread::scope(|scope| {
        for rank in 0..size {
            let body = &body;
            scope.spawn(move || {
                nvidia.enter(rank as i32);
                let mut comm: Handle = ptr::null_mut();
                let (size, number) = (size as i32, rank as i32);
                assert_eq!(c!(nvidia.nccl, ncclCommInitRank(&mut comm => *mut Handle, size => i32, id => Id, number => i32)), 0);
                body(&Rank { nvidia, rank, comm, stream: nvidia.stream() });
            });
        }
    });
}

impl Rank {
    fn finish(&self) {
        assert_eq!(
            c!(self.nvidia.nccl, ncclCommDestroy(self.comm => Handle)),
            0
        );
    }

    fn all_reduce(&self, comm: Handle, address: u64, count: usize) -> i32 {
        c!(self.nvidia.nccl, ncclAllReduce(address => u64, address => u64, count => usize, F32 => i32, SUM => i32,
            comm => Handle, self.stream => Handle))
    }

    fn error(&self) -> i32 {
        let mut error = 0;
        assert_eq!(
            c!(self.nvidia.nccl, ncclCommGetAsyncError(self.comm => Handle, &mut error => *mut i32)),
            0
        );
        error
    }

    fn send(&self, from: u64, count: usize, peer: usize) -> i32 {
        c!(self.nvidia.nccl, ncclSend(from => u64, count => usize, F32 => i32, peer as i32 => i32, self.comm => Handle, self.stream => Handle))
    }

    fn recv(&self, to: u64, count: usize, peer: usize) -> i32 {
        c!(self.nvidia.nccl, ncclRecv(to => u64, count => usize, F32 => i32, peer as i32 => i32, self.comm => Handle, self.stream => Handle))
    }
}

#[test]
fn sums_pieces_and_copies() {
    on_ranks(4, |rank| {
        let Rank {
            nvidia,
            comm,
            stream,
            ..
        } = *rank;
        let mine = [rank.rank as f32; 4].map(|value| value + 1.0);
        let (sum, gathered) = (nvidia.upload(&mine), nvidia.upload(&[0f32; 16]));
        assert_eq!(rank.all_reduce(comm, sum, 4), 0);
        assert_eq!(
            c!(nvidia.nccl, ncclAllGather(sum => u64, gathered => u64, 4 => usize, F32 => i32, comm => Handle, stream => Handle)),
            0
        );
        let (piece, spread) = (
            nvidia.upload(&[0f32]),
            nvidia.upload(&[1f32, 2.0, 3.0, 4.0]),
        );
        assert_eq!(
            c!(nvidia.nccl, ncclReduceScatter(spread => u64, piece => u64, 1 => usize, F32 => i32, SUM => i32, comm => Handle, stream => Handle)),
            0
        );
        let root = nvidia.upload(&mine);
        assert_eq!(
            c!(nvidia.nccl, ncclBroadcast(root => u64, root => u64, 4 => usize, F32 => i32, 2 => i32, comm => Handle, stream => Handle)),
            0
        );
        assert_eq!(nvidia.synchronize(stream), 0);
        assert_eq!(nvidia.download::<f32>(sum, 4), [10.0; 4]);
        assert_eq!(nvidia.download::<f32>(gathered, 16), [10.0; 16]);
        assert_eq!(
            nvidia.download::<f32>(piece, 1),
            [4.0 * (rank.rank + 1) as f32]
        );
        assert_eq!(nvidia.download::<f32>(root, 4), [3.0; 4]);
        rank.finish();
    });
}

#[test]
fn a_group_exchanges_without_a_deadlock() {
    on_ranks(3, |rank| {
        let nvidia = rank.nvidia;
        let (from, to) = (
            nvidia.upload(&[rank.rank as f32; 3]),
            nvidia.upload(&[-1f32; 3]),
        );
        assert_eq!(c!(nvidia.nccl, ncclGroupStart()), 0);
        for peer in 0..3 {
            assert_eq!(rank.send(from + 4 * peer as u64, 1, peer), 0);
            assert_eq!(rank.recv(to + 4 * peer as u64, 1, peer), 0);
        }
        assert_eq!(c!(nvidia.nccl, ncclGroupEnd()), 0);
        assert_eq!(nvidia.synchronize(rank.stream), 0);
        assert_eq!(nvidia.download::<f32>(to, 3), [0.0, 1.0, 2.0]);
        rank.finish();
    });
}

#[test]
fn a_split_orders_its_ranks_by_key() {
    on_ranks(4, |rank| {
        let nvidia = rank.nvidia;
        let (mut part, color, key): (Handle, i32, i32) =
            (ptr::null_mut(), (rank.rank % 2) as i32, -(rank.rank as i32));
        let none: Handle = ptr::null_mut();
        assert_eq!(
            c!(nvidia.nccl, ncclCommSplit(rank.comm => Handle, color => i32, key => i32, &mut part => *mut Handle, none => Handle)),
            0
        );
        let (mut number, mut count) = (-1, -1);
        assert_eq!(
            c!(nvidia.nccl, ncclCommUserRank(part => Handle, &mut number => *mut i32)),
            0
        );
        assert_eq!(
            c!(nvidia.nccl, ncclCommCount(part => Handle, &mut count => *mut i32)),
            0
        );
        assert_eq!((number, count), (1 - (rank.rank / 2) as i32, 2));
        let value = nvidia.upload(&[rank.rank as f32]);
        assert_eq!(rank.all_reduce(part, value, 1), 0);
        assert_eq!(nvidia.synchronize(rank.stream), 0);
        assert_eq!(
            nvidia.download::<f32>(value, 1),
            [if color == 0 { 2.0 } else { 4.0 }]
        );
        assert_eq!(c!(nvidia.nccl, ncclCommDestroy(part => Handle)), 0);
        rank.finish();
    });
}

#[test]
fn ranks_that_disagree_get_an_error_and_no_numbers() {
    on_ranks(2, |rank| {
        let value = rank.nvidia.upload(&[1f32, 1.0]);
        assert_eq!(rank.all_reduce(rank.comm, value, 1 + rank.rank), 0);
        assert_eq!(rank.nvidia.synchronize(rank.stream), 0);
        assert_eq!(rank.error(), 5, "invalid usage");
        assert_eq!(rank.nvidia.download::<f32>(value, 2), [1.0, 1.0]);
        assert_eq!(
            rank.all_reduce(rank.comm, value, 1),
            5,
            "and so do later calls"
        );
        assert_eq!(c!(rank.nvidia.nccl, ncclCommAbort(rank.comm => Handle)), 0);
    });
}

#[test]
fn a_rank_that_waits_for_an_aborted_one_hears_of_it_and_can_leave() {
    // A collective after the abort would itself return the error.
    let issued = Barrier::new(2);
    on_ranks(2, |rank| {
        let value = rank.nvidia.upload(&[1f32]);
        let connects = rank.all_reduce(rank.comm, value, 1);
        let waits = (rank.rank == 0).then(|| rank.all_reduce(rank.comm, value, 1));
        // Before the first check: a rank that fails one would leave the other at the barrier.
        issued.wait();
        assert_eq!(connects, 0);
        if let Some(waits) = waits {
            assert_eq!(waits, 0);
            while rank.error() == 0 {
                assert_eq!(
                    c!(rank.nvidia.cuda, cuStreamQuery(rank.stream => Handle)),
                    600
                );
                thread::yield_now();
            }
            assert_eq!(rank.error(), 6, "remote error");
        }
        assert_eq!(c!(rank.nvidia.nccl, ncclCommAbort(rank.comm => Handle)), 0);
        assert_eq!(rank.nvidia.synchronize(rank.stream), 0);
    });
}

#[test]
fn a_first_collective_ends_if_a_peer_has_left() {
    on_ranks(2, |rank| {
        if rank.rank == 0 {
            let value = rank.nvidia.upload(&[1f32]);
            assert_eq!(rank.all_reduce(rank.comm, value, 1), 6, "remote error");
        }
        assert_eq!(c!(rank.nvidia.nccl, ncclCommAbort(rank.comm => Handle)), 0);
    });
}

#[test]
fn two_ranks_on_one_device_are_refused() {
    let Some(nvidia) = nvidia() else { return };
    let id = id(nvidia);
    thread::scope(|scope| {
        for rank in 0..2 {
            scope.spawn(move || {
                nvidia.enter(7);
                let mut comm: Handle = ptr::null_mut();
                assert_eq!(c!(nvidia.nccl, ncclCommInitRank(&mut comm => *mut Handle, 2 => i32, id => Id, rank => i32)), 5);
            });
        }
    });
}

#[test]
fn one_thread_joins_many_ranks_in_a_group() {
    let Some(nvidia) = nvidia() else { return };
    let id = id(nvidia);
    let mut comms: [Handle; 2] = [ptr::null_mut(); 2];
    assert_eq!(c!(nvidia.nccl, ncclGroupStart()), 0);
    for (rank, comm) in comms.iter_mut().enumerate() {
        nvidia.enter(rank as i32);
        assert_eq!(
            c!(nvidia.nccl, ncclCommInitRank(comm => *mut Handle, 2 => i32, id => Id, rank as i32 => i32)),
            0
        );
    }
    assert_eq!(c!(nvidia.nccl, ncclGroupEnd()), 0);
    for comm in comms {
        let mut count = 0;
        assert_eq!(
            c!(nvidia.nccl, ncclCommCount(comm => Handle, &mut count => *mut i32)),
            0
        );
        assert_eq!(count, 2);
        assert_eq!(c!(nvidia.nccl, ncclCommDestroy(comm => Handle)), 0);
    }
}

/// `ncclConfig_t` in the layout of NCCL 2.17, which newer versions only add to.
#[repr(C)]
struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: i32,
    blocks: [i32; 3],
    network: *const i8,
}

/// Joins two ranks that do not wait; the first is rank 0.
fn joined_without_waiting(nvidia: &Nvidia) -> [Handle; 2] {
    let id = id(nvidia);
    let join = |rank: i32| {
        let unset = i32::MIN;
        let (size, network) = (size_of::<Config>(), ptr::null());
        let mut config = Config {
            size,
            magic: 0xcafe_beef,
            version: 21700,
            blocking: 0,
            blocks: [unset; 3],
            network,
        };
        let mut comm: Handle = ptr::null_mut();
        nvidia.enter(rank);
        let status = c!(nvidia.nccl, ncclCommInitRankConfig(&mut comm => *mut Handle, 2 => i32, id => Id, rank => i32,
            &mut config => *mut Config));
        assert_eq!(status, 7, "in progress");
        comm
    };
    let first = join(0);
    assert_eq!(state(nvidia, first), 7, "the other has not come");
    let comms = [first, join(1)];
    settle(nvidia, comms);
    comms
}

fn state(nvidia: &Nvidia, comm: Handle) -> i32 {
    let mut state = 0;
    assert_eq!(
        c!(nvidia.nccl, ncclCommGetAsyncError(comm => Handle, &mut state => *mut i32)),
        0
    );
    state
}

fn settle(nvidia: &Nvidia, comms: [Handle; 2]) {
    while comms.iter().any(|&comm| state(nvidia, comm) == 7) {
        thread::yield_now();
    }
    assert_eq!(comms.map(|comm| state(nvidia, comm)), [0, 0]);
}

#[test]
fn a_first_message_is_in_progress_until_both_ranks_have_called() {
    let Some(nvidia) = nvidia() else { return };
    let comms = joined_without_waiting(nvidia);
    let mut ranks = Vec::new();
    for (rank, comm) in comms.into_iter().enumerate() {
        nvidia.enter(rank as i32);
        let stream = nvidia.stream();
        ranks.push(Rank {
            nvidia,
            rank,
            comm,
            stream,
        });
    }
    nvidia.enter(1);
    let to = nvidia.upload(&[0f32]);
    assert_eq!(ranks[1].recv(to, 1, 0), 7, "in progress");
    let reports = nvidia.misuses();
    assert_eq!(
        ranks[1].recv(to, 1, 0),
        4,
        "a call while one is in progress"
    );
    assert_eq!(nvidia.misuses(), reports + 1);
    nvidia.enter(0);
    assert_eq!(ranks[0].send(nvidia.upload(&[3f32]), 1, 1), 7);
    settle(nvidia, comms);
    nvidia.enter(1);
    assert_eq!(nvidia.synchronize(ranks[1].stream), 0);
    assert_eq!(nvidia.download::<f32>(to, 1), [3.0]);
    ranks.iter().for_each(Rank::finish);
}

#[test]
fn a_communicator_can_be_had_without_waiting() {
    let Some(nvidia) = nvidia() else { return };
    for comm in joined_without_waiting(nvidia) {
        assert_eq!(c!(nvidia.nccl, ncclCommDestroy(comm => Handle)), 0);
    }
}
