//! A device runs a number of collectives at a time. Ranks that launch those of two communicators in different orders
//! then wait for each other. One test: the number is a setting of the process.

mod common;

use common::{Handle, Nvidia, c, nvidia};
use std::{ptr, sync::Barrier, thread, time::Duration};

const F32: i32 = 7;
const SUM: i32 = 0;

#[repr(C)]
#[derive(Clone, Copy)]
struct Id([u8; 128]);

fn all_reduce(nvidia: &Nvidia, comm: Handle, at: u64, stream: Handle) {
    assert_eq!(
        c!(nvidia.nccl, ncclAllReduce(at => u64, at => u64, 1 => usize, F32 => i32, SUM => i32, comm => Handle, stream => Handle)),
        0
    );
}

/// Two ranks launch a collective of each of two communicators on two streams, rank 1 in this order. Whether they end.
fn end(nvidia: &'static Nvidia, order: [usize; 2]) -> bool {
    let ids = [(); 2].map(|()| {
        let mut id = Id([0; 128]);
        assert_eq!(c!(nvidia.nccl, ncclGetUniqueId(&mut id => *mut Id)), 0);
        id
    });
    let barrier = Barrier::new(2);
    let rank = |rank: usize| {
        nvidia.enter(rank as i32);
        let parts = ids.map(|id| {
            let mut comm: Handle = ptr::null_mut();
            assert_eq!(c!(nvidia.nccl, ncclCommInitRank(&mut comm => *mut Handle, 2 => i32, id => Id, rank as i32 => i32)), 0);
            (comm, nvidia.upload(&[1f32]), nvidia.stream())
        });
        for (comm, at, stream) in parts {
            all_reduce(nvidia, comm, at, stream);
            assert_eq!(nvidia.synchronize(stream), 0, "connected");
        }
        barrier.wait();
        for index in if rank == 0 { [0, 1] } else { order } {
            let (comm, at, stream) = parts[index];
            all_reduce(nvidia, comm, at, stream);
            // The first is at its place before the second is launched.
            thread::sleep(Duration::from_millis(50));
        }
        thread::sleep(Duration::from_millis(200));
        let ended =
            parts.map(|(_, _, stream)| c!(nvidia.cuda, cuStreamQuery(stream => Handle)) == 0);
        barrier.wait();
        for (comm, _, _) in parts {
            assert_eq!(c!(nvidia.nccl, ncclCommAbort(comm => Handle)), 0);
        }
        ended == [true; 2]
    };
    thread::scope(|scope| {
        let ranks = [0, 1].map(|index| scope.spawn(move || rank(index)));
        ranks.map(|rank| rank.join().expect("the rank returns")) == [true; 2]
    })
}

#[test]
fn collectives_in_different_orders_wait_for_each_other() {
    // SAFETY: this program has one test, and no other thread reads the environment yet.
    unsafe { std::env::set_var("FASCICLE_EMULATOR_RESIDENT", "1") };
    let Some(nvidia) = nvidia() else { return };
    assert!(end(nvidia, [0, 1]), "in the same order");
    assert!(!end(nvidia, [1, 0]), "in different orders");
}
