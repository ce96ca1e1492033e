//! Messages and collectives between live ranks, which are threads: their times depend only on the program.

mod support;

use hal::{
    AbortSignal, Collective, Communicator, DType, Device, Error, GroupId, Join, RawSlice, ReduceOp,
    Result, Stream, StreamKind,
};
use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use support::{device, perlmutter};

/// A rank of a group on two streams.
struct Rank {
    device: Arc<dyn Device>,
    group: Box<dyn Communicator>,
    compute: Arc<dyn Stream>,
    messages: Arc<dyn Stream>,
    slice: RawSlice,
}

impl Rank {
    fn new(
        id: &GroupId,
        rank: usize,
        size: usize,
        timeout: Duration,
        abort: &Arc<AbortSignal>,
    ) -> Result<Rank> {
        let (device, _) = device(&perlmutter(), size, rank, None)?;
        let (label, members) = ("stages".to_string(), (0..size).collect());
        let join = Join {
            id: id.clone(),
            label,
            rank,
            members,
            timeout,
            abort: abort.clone(),
        };
        let addr = device.allocate(4 << 20)?.addr;
        Ok(Rank {
            group: device.join(join)?,
            compute: device.create_stream(StreamKind::Compute)?,
            messages: device.create_stream(StreamKind::Communication)?,
            slice: RawSlice {
                addr,
                len: 1 << 20,
                dtype: DType::F32,
            },
            device,
        })
    }

    fn run(&self, calls: &[Collective]) -> Result<()> {
        // SAFETY: the slice is live until the rank is dropped.
        unsafe { self.group.run(&*self.messages, calls) }
    }

    fn send(&self, to: usize) -> Result<()> {
        self.run(&[Collective::Send {
            buffer: self.slice,
            to,
        }])
    }

    fn recv(&self, from: usize) -> Result<()> {
        self.run(&[Collective::Recv {
            buffer: self.slice,
            from,
        }])
    }

    // Some work on the compute stream, behind the last message, and the next message behind that work.
    fn work(&self, times: usize) -> Result<()> {
        self.compute.wait(&*self.messages.record()?)?;
        for _ in 0..times {
            let fill = hal::kernel::Fill {
                out: self.slice,
                value: 0.0,
            };
            // SAFETY: the slice is live until the rank is dropped.
            unsafe {
                self.device
                    .kernels()?
                    .launch(&*self.compute, &hal::Kernel::Fill(fill))?
            };
        }
        self.messages.wait(&*self.compute.record()?)
    }

    fn time_us(&self) -> Result<f64> {
        Ok(self.messages.record()?.time_us()?.unwrap_or_default())
    }
}

fn patient(
    size: usize,
    body: impl Fn(&Rank, usize) -> Result<f64> + Send + Sync + 'static,
) -> Vec<Result<f64>> {
    ranks(size, Duration::from_secs(20), body)
}

fn ranks(
    size: usize,
    timeout: Duration,
    body: impl Fn(&Rank, usize) -> Result<f64> + Send + Sync + 'static,
) -> Vec<Result<f64>> {
    let id = device(&perlmutter(), 1, 0, None)
        .unwrap()
        .0
        .create_group()
        .unwrap();
    let (body, abort) = (Arc::new(body), Arc::new(AbortSignal::new()));
    let start = |rank| {
        let (id, body, abort) = (id.clone(), body.clone(), abort.clone());
        thread::spawn(move || body(&Rank::new(&id, rank, size, timeout, &abort)?, rank))
    };
    let threads: Vec<_> = (0..size).map(start).collect();
    threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect()
}

fn all(results: Vec<Result<f64>>) -> Vec<f64> {
    results.into_iter().map(|result| result.unwrap()).collect()
}

#[test]
fn a_receive_ends_after_its_message_was_sent_however_late_the_sender_is() {
    let times = all(patient(2, |rank, index| {
        if index == 0 {
            thread::sleep(Duration::from_millis(30));
            rank.work(50)?;
            rank.send(1)?;
        } else {
            rank.recv(0)?;
        }
        rank.time_us()
    }));
    assert!(times[1] >= times[0] && times[0] > 50.0 * 2.0, "{times:?}");
    assert!(
        times[1] < times[0] + 100.0,
        "the receiver waited for nothing else: {times:?}"
    );
}

#[test]
fn receives_may_be_queued_before_the_sends_that_they_wait_for() {
    // Both queue the receive first, as stages do one pass ahead; neither may block the other.
    let times = all(patient(2, |rank, index| {
        for _ in 0..10 {
            rank.recv(1 - index)?;
            rank.send_beside(1 - index)?;
            rank.work(1 + index)?;
        }
        rank.time_us()
    }));
    assert!(times.iter().all(|time| *time > 0.0), "{times:?}");
}

impl Rank {
    // A send on its own stream, which waits for nothing.
    fn send_beside(&self, to: usize) -> Result<()> {
        let stream = self.device.create_stream(StreamKind::Communication)?;
        // SAFETY: the slice is live until the rank is dropped.
        unsafe {
            self.group.run(
                &*stream,
                &[Collective::Send {
                    buffer: self.slice,
                    to,
                }],
            )
        }
    }
}

#[test]
fn times_are_those_of_the_program_and_not_of_the_threads() {
    let run = |delays: [u64; 4]| {
        all(patient(4, move |rank, index| {
            for turn in 0..8 {
                thread::sleep(Duration::from_micros(delays[(index + turn) % 4]));
                rank.work(1 + (index * 7 + turn * 3) % 5)?;
                let (next, before) = ((index + 1) % 4, (index + 3) % 4);
                let [buffer, other] = [
                    rank.slice.part(0, 1 << 19),
                    rank.slice.part(1 << 19, 1 << 19),
                ];
                rank.run(&[
                    Collective::Send { buffer, to: next },
                    Collective::Recv {
                        buffer: other,
                        from: before,
                    },
                ])?;
                rank.run(&[Collective::AllReduce {
                    buffer,
                    op: ReduceOp::Sum,
                }])?;
            }
            rank.time_us()
        }))
    };
    let first = run([0, 0, 0, 0]);
    assert_eq!(first, run([300, 0, 100, 900]));
    assert_eq!(first, run([0, 700, 0, 50]));
}

#[test]
fn who_watches_for_a_message_sees_it_at_its_virtual_time() {
    let run = |sleep: u64| {
        all(patient(2, move |rank, index| {
            if index == 0 {
                thread::sleep(Duration::from_millis(sleep));
                rank.work(200)?;
                rank.send(1)?;
                return rank.time_us();
            }
            rank.recv(0)?;
            let arrived = rank.messages.record()?;
            let mut looks = 0;
            while !arrived.is_complete()? {
                looks += 1;
            }
            Ok(f64::from(looks))
        }))
    };
    let (prompt, late) = (run(0), run(20));
    assert_eq!(
        prompt, late,
        "how often it looked does not depend on real time"
    );
    assert!(prompt[1] > 10.0, "it had to poll often: {prompt:?}");
}

#[test]
fn a_collective_starts_when_the_last_member_comes() {
    let times = all(patient(3, |rank, index| {
        rank.work(if index == 1 { 300 } else { 1 })?;
        rank.run(&[Collective::AllReduce {
            buffer: rank.slice,
            op: ReduceOp::Sum,
        }])?;
        rank.time_us()
    }));
    assert!(
        times.iter().all(|time| (time - times[1]).abs() < 1e-6),
        "{times:?}"
    );
}

#[test]
fn different_calls_are_an_error_that_names_both() {
    let results = patient(2, |rank, index| {
        let buffer = rank.slice.part(0, 10 + index);
        rank.run(&[Collective::AllReduce {
            buffer,
            op: ReduceOp::Sum,
        }])?;
        rank.time_us()
    });
    for result in results {
        let message = result.unwrap_err().to_string();
        assert!(
            message.contains("all_reduce(10 x f32") && message.contains("all_reduce(11 x f32"),
            "{message}"
        );
    }
    let results = patient(2, |rank, index| {
        let buffer = rank.slice.part(0, 10 + index);
        match index {
            0 => rank.run(&[Collective::Send { buffer, to: 1 }])?,
            _ => rank.run(&[Collective::Recv { buffer, from: 0 }])?,
        }
        rank.time_us()
    });
    let message = results[1].clone().unwrap_err().to_string();
    assert!(
        message.contains("send(10 x f32") && message.contains("recv(11 x f32"),
        "{message}"
    );
}

#[test]
fn a_rank_that_does_not_come_is_named() {
    let start = Instant::now();
    let results = ranks(2, Duration::from_millis(100), |rank, index| {
        if index == 0 {
            rank.recv(1)?;
        }
        rank.time_us()
    });
    let error = results[0].clone().unwrap_err();
    let Error::Timeout {
        ref group,
        rank: 0,
        ref missing,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!((group.as_str(), &missing[..]), ("stages", &[1][..]));
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn an_abort_ends_the_wait() {
    let id = device(&perlmutter(), 1, 0, None)
        .unwrap()
        .0
        .create_group()
        .unwrap();
    let abort = Arc::new(AbortSignal::new());
    let rank = Rank::new(&id, 0, 2, Duration::from_secs(60), &abort).unwrap();
    rank.recv(1).unwrap();
    abort.raise(1, "it broke");
    let error = rank.messages.synchronize().unwrap_err();
    assert!(matches!(error, Error::Aborted { rank: 1, .. }), "{error}");
    assert!(rank.messages.record().is_err(), "the failure stays");
}
