//! Memory of both vendors lives as long as queued work uses it, and nothing waits longer than necessary. The tests run
//! on the emulator with streams that start late. Freed memory becomes NaN there at once, so a forgotten reader shows.

use fascicle_emulator as emulator;
use gpu::Options;
use hal::{AbortSignal, CollectiveBackend, GroupId, Join};
use std::{
    sync::{Arc, OnceLock, mpsc},
    thread,
    time::Duration,
};
use tensor::{Communicator, DType, Device, Result, StreamKind, Tensor, ops};
use testkit::contract::Open;

const LIBRARY: [(&str, Open); 2] = [
    ("cuda", |ordinal| {
        cuda::open(options(ordinal, CollectiveBackend::Library))
    }),
    ("rocm", |ordinal| {
        rocm::open(options(ordinal, CollectiveBackend::Library))
    }),
];
const STAGED: [(&str, Open); 2] = [
    ("cuda", |ordinal| {
        cuda::open(options(ordinal, CollectiveBackend::Staged))
    }),
    ("rocm", |ordinal| {
        rocm::open(options(ordinal, CollectiveBackend::Staged))
    }),
];
const MIB: usize = 1 << 20;
/// The memory of each device, of which cuBLAS may have 4 MiB.
const MEMORY: &str = "16m";
/// A third of all work starts up to this many microseconds late.
const DELAY: &str = "1:100000";
/// Number of small pieces of work before the one under test: enough of them are late that the host runs far ahead.
const SMALL_WORKS: usize = 30;
/// Much longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

fn options(ordinal: usize, collectives: CollectiveBackend) -> Options {
    Options {
        ordinal,
        settings: hal::DeviceSettings {
            collectives,
            ..hal::DeviceSettings::default()
        },
        ..Options::default()
    }
}

/// Whether the tests can run here; if not, it has printed why.
fn is_ready() -> bool {
    static READY: OnceLock<bool> = OnceLock::new();
    *READY.get_or_init(|| {
        let Some(folder) = emulator::for_test("lifetimes") else {
            return false;
        };
        // SAFETY: the standard library guards its own reads, and the emulator's come after this, once it is opened.
        unsafe {
            std::env::set_var("FASCICLE_EMULATOR_MEMORY", MEMORY);
            // From Hopper on, the workspace of GEMMs would be larger than all of it.
            std::env::set_var("FASCICLE_EMULATOR_CAPABILITY", "80");
            std::env::set_var("FASCICLE_EMULATOR_DELAY", DELAY);
            for vendor in ["CUDA", "ROCM"] {
                std::env::set_var(format!("FASCICLE_{vendor}_PATH"), &folder);
                std::env::set_var(
                    format!("FASCICLE_{vendor}_OBJECT"),
                    folder.join(emulator::IMAGE),
                );
            }
        }
        true
    })
}

/// Queues small work on the compute stream.
fn hold_up(device: &Device) -> Result<()> {
    let mut small = Tensor::zeros(device, DType::F32, &[64])?;
    for _ in 0..SMALL_WORKS {
        small = ops::add(&small, &small)?;
    }
    Ok(())
}

fn filled(device: &Device, bytes: usize, value: f64) -> Result<Tensor> {
    Tensor::from_f64(device, DType::F32, &[bytes / 4], &vec![value; bytes / 4])
}

fn join(
    device: &Device,
    id: &GroupId,
    rank: usize,
    size: usize,
    abort: &Arc<AbortSignal>,
) -> Result<Communicator> {
    let (id, label, members) = (id.clone(), format!("{size} ranks"), (0..size).collect());
    Communicator::join(
        device,
        Join {
            id,
            label,
            rank,
            members,
            timeout: PATIENCE,
            abort: abort.clone(),
        },
        None,
    )
}

/// Memory runs out while the compute stream has yet to read a tensor that the host has dropped.
fn run_out(open: Open) -> Result<Vec<f64>> {
    let device = Device::new(open(7)?)?;
    let free = device.hal().memory()?.free;
    let x = filled(&device, 2 * MIB, 1.0)?;
    hold_up(&device)?;
    let sum = ops::add(&x, &x)?;
    drop(x);
    // The device holds this only after the cache, which has the block of `x`, was emptied.
    let _large = Tensor::zeros(&device, DType::F32, &[(free - 3 * MIB) / 4])?;
    sum.to_f64()
}

#[test]
fn an_emptied_cache_takes_nothing_from_work_that_is_queued() {
    for (vendor, open) in STAGED.into_iter().filter(|_| is_ready()) {
        let sums = run_out(open).unwrap_or_else(|error| panic!("{vendor}: {error}"));
        assert!(
            sums.iter().all(|&sum| sum == 2.0),
            "{vendor}: {:?} ...",
            &sums[..4]
        );
    }
}

/// One of three ranks: the first sends to the second and expects a message from the third, which aborts the job
/// instead.
fn of_three(open: Open, rank: usize, id: &GroupId, abort: &Arc<AbortSignal>) -> Result<Vec<f64>> {
    let device = Device::new(open(rank)?)?;
    let group = join(&device, id, rank, 3, abort)?;
    let received = filled(&device, MIB, 0.0)?;
    match rank {
        0 => {
            let sent = filled(&device, MIB, 3.0)?;
            let outcome = group.send_recv(&device.compute(), (&sent, 1), (&received, 2));
            outcome.expect_err("the third rank sends nothing");
            Ok(Vec::new())
        }
        1 => {
            hold_up(&device)?;
            group
                .recv(&device.compute(), &received, 0)
                .expect_err("the sender fails");
            received.to_f64()
        }
        _ => {
            thread::sleep(Duration::from_millis(300));
            abort.raise(rank, "the disk is full");
            Ok(Vec::new())
        }
    }
}

#[test]
fn a_rank_that_fails_keeps_its_memory_until_the_others_have_read_it() {
    for (vendor, open) in STAGED.into_iter().filter(|_| is_ready()) {
        let id = open(0)
            .and_then(|device| device.create_group())
            .expect("a group");
        let abort = Arc::<AbortSignal>::default();
        let ranks = [0, 1, 2].map(|rank| {
            let (id, abort) = (id.clone(), abort.clone());
            thread::spawn(move || of_three(open, rank, &id, &abort))
        });
        let [_, received, _] = ranks.map(|rank| {
            rank.join()
                .expect("no panic")
                .expect("its own calls succeed")
        });
        // Either the full message arrived, or the failure did before it.
        let whole = [0.0, 3.0]
            .iter()
            .any(|value| received.iter().all(|x| x == value));
        assert!(whole, "{vendor}: {:?} ...", &received[..4]);
    }
}

/// One of two ranks. Each queues a receive, then work that needs more scratch memory and a larger staging block than
/// before, and only then sends.
fn of_two(open: Open, rank: usize, ids: &[GroupId; 2]) -> Result<Vec<f64>> {
    let device = Device::new(open(3 + rank)?)?;
    // A group for each direction, as between the stages of a pipeline.
    let [first, second] = ids.each_ref().map(|id| {
        let group = join(&device, id, rank, 2, &Arc::default())?;
        // Or both hosts would wait in their receive for the other's first send.
        group.connect()?;
        Ok::<_, hal::Error>(group)
    });
    let (to_peer, from_peer) = if rank == 0 {
        (first?, second?)
    } else {
        (second?, first?)
    };
    let [receives, sends] =
        ["receives", "sends"].map(|name| device.create_stream(StreamKind::Communication, name));
    let (receives, sends) = (receives?, sends?);
    let sum_columns = |columns: usize| {
        let out = Tensor::zeros(&device, DType::F32, &[columns])?;
        ops::column_sum_into(
            &filled(&device, 8 * columns, 1.0)?.reshape(&[2, columns])?,
            &out,
            1.0,
        )?;
        Ok::<_, hal::Error>(out)
    };
    let received = Tensor::zeros(&device, DType::F32, &[16])?;
    sum_columns(16)?;
    from_peer.recv(&receives, &received, 1 - rank)?;
    let sums = sum_columns(400_000)?;
    to_peer.send(&sends, &sums.rows(0, 16)?, 1 - rank)?;
    received.to_f64()
}

#[test]
fn ranks_that_need_more_scratch_memory_do_not_wait_for_each_other() {
    for (vendor, open) in LIBRARY.into_iter().filter(|_| is_ready()) {
        let device = open(3).expect("a device");
        let ids = [0, 1].map(|_| device.create_group().expect("a group"));
        let (done, outcomes) = mpsc::channel();
        for rank in 0..2 {
            let (done, ids) = (done.clone(), ids.clone());
            thread::spawn(move || done.send(of_two(open, rank, &ids)));
        }
        for _ in 0..2 {
            let outcome = outcomes
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("{vendor}: the ranks are stuck"));
            assert_eq!(
                outcome.expect("the ranks exchange messages"),
                [2.0; 16],
                "{vendor}"
            );
        }
    }
}
