//! The streams of the CPU (`cpu/src/stream`): order, events, failures, and the end of a queue.

use crate::stream::HostStream;
use crate::sync::{Waits, explore, thread::unwinding};
use crate::wait::Signal;
use contracts::{DeviceId, Error, Stream, StreamKind, VendorId};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

const DEVICE: DeviceId = DeviceId {
    vendor: VendorId::new("model"),
    ordinal: 0,
};

// Memory on which jobs work without any synchronisation of their own.
#[derive(Clone)]
struct Memory(Arc<Element>);

struct Element(UnsafeCell<u32>);

// SAFETY: loom checks that no two threads access the cell at a time.
unsafe impl Send for Element {}
// SAFETY: as above.
unsafe impl Sync for Element {}

impl Memory {
    fn new() -> Memory {
        Memory(Arc::new(Element(UnsafeCell::new(0))))
    }

    fn set(&self, value: u32) {
        // SAFETY: loom refuses executions in which another thread may access the cell.
        self.0.0.with_mut(|cell| unsafe { *cell = value });
    }

    fn get(&self) -> u32 {
        // SAFETY: as above.
        self.0.0.with(|cell| unsafe { *cell })
    }
}

fn queue() -> HostStream {
    HostStream::new(DEVICE, StreamKind::Communication)
}

fn write(stream: &HostStream, memory: &Memory, value: u32) -> contracts::Result<()> {
    let memory = memory.clone();
    stream.submit(move || {
        memory.set(value);
        Ok(())
    })
}

fn fail(stream: &HostStream) {
    let failure = || Err(Error::invalid("job", "a failure", "none"));
    // A queue that has not failed before accepts the job.
    stream.submit(failure).unwrap();
}

/// Jobs run one after another, and `synchronize` returns after the last.
pub fn jobs_run_in_order() {
    explore(Waits::Notified, 2, || {
        let (stream, memory) = (queue(), Memory::new());
        write(&stream, &memory, 1).unwrap();
        write(&stream, &memory, 2).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(memory.get(), 2);
    });
}

/// A job wakes the worker, although nothing is queued behind it.
pub fn a_job_wakes_the_worker() {
    explore(Waits::Notified, 2, || {
        let (stream, done) = (queue(), Arc::new(Signal::default()));
        let of_job = done.clone();
        let job = move || {
            of_job.raise();
            Ok(())
        };
        stream.submit(job).unwrap();
        while !done.wait(0, Duration::from_secs(1)) {}
    });
}

/// A queue that is dropped runs what it holds before the drop returns.
pub fn a_dropped_queue_has_run() {
    explore(Waits::Notified, 2, || {
        let (stream, memory) = (queue(), Memory::new());
        write(&stream, &memory, 1).unwrap();
        drop(stream);
        assert_eq!(memory.get(), 1);
    });
}

/// Work behind an event of another queue runs after the work before the event.
pub fn a_wait_orders_two_queues() {
    explore(Waits::Notified, 1, || {
        let (one, other, memory) = (queue(), queue(), Memory::new());
        write(&one, &memory, 1).unwrap();
        let event = one.record().unwrap();
        other.wait(&*event).unwrap();
        write(&other, &memory, 2).unwrap();
        drop((other, one));
        assert_eq!(memory.get(), 2);
    });
}

/// The host sees what ran before an event once the event is complete.
pub fn a_complete_event_orders_the_host() {
    explore(Waits::Notified, 3, || {
        let (stream, memory) = (queue(), Memory::new());
        write(&stream, &memory, 1).unwrap();
        let event = stream.record().unwrap();
        if event.is_complete().unwrap() {
            assert_eq!(memory.get(), 1);
        }
        event.synchronize().unwrap();
        assert_eq!(memory.get(), 1);
    });
}

/// A failure reaches every stream that waits for the failed work, and no later job runs.
pub fn a_failure_reaches_those_who_wait() {
    explore(Waits::Notified, 1, || {
        let (one, other, memory) = (queue(), queue(), Memory::new());
        fail(&one);
        // The event may be refused, if the worker has already failed.
        if let Ok(event) = one.record()
            && other.wait(&*event).is_ok()
            && write(&other, &memory, 1).is_ok()
        {
            other.synchronize().unwrap_err();
        }
        let _ = write(&one, &memory, 2);
        one.synchronize().unwrap_err();
        drop((one, other));
        assert_eq!(memory.get(), 0);
    });
}

/// A rank that unwinds ends the wait of its queue for a point that only comes after the rank has gone.
pub fn an_unwinding_rank_waits_for_nobody() {
    explore(Waits::Expire, 1, || {
        let (peer, own, memory) = (queue(), queue(), Memory::new());
        let gone = Arc::new(AtomicBool::new(false));
        let awaited = gone.clone();
        peer.submit(move || {
            while !awaited.load(Relaxed) {
                loom::thread::yield_now();
            }
            Ok(())
        })
        .unwrap();
        let event = peer.record().unwrap();
        own.wait(&*event).unwrap();
        write(&own, &memory, 1).unwrap();
        unwinding(move || drop(own));
        assert_eq!(memory.get(), 0);
        gone.store(true, Relaxed);
    });
}
