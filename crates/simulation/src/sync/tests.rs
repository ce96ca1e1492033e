use super::atomic::{AtomicU64, Ordering::SeqCst};
use super::thread::{self, Builder, JoinHandle};
use super::time::Instant;
use super::*;
use std::sync::Arc;
use std::time::Duration;

fn seeded(seed: u64) -> Settings {
    Settings {
        seed,
        ..Settings::default()
    }
}

fn with_fault(process: usize, after: u64, kind: FaultKind) -> Settings {
    let faults = vec![Fault {
        process,
        after,
        kind,
    }];
    Settings {
        faults,
        ..seeded(7)
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    Builder::new().name(name.into()).spawn(work).unwrap()
}

/// What a body of a simulation returns that neither halts nor panics.
fn value<T: Send + 'static>(settings: Settings, body: impl FnOnce() -> T + Send + 'static) -> T {
    run(settings, body).result.unwrap().unwrap()
}

/// Threads that meet in a mutex, a condition variable and a channel.
fn crowd() -> Vec<usize> {
    let met = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
    let (sender, receiver) = mpsc::channel();
    let threads: Vec<_> = (0..4)
        .map(|index| {
            let (met, sender) = (met.clone(), sender.clone());
            spawn("member", move || {
                met.0.lock().unwrap().push(index);
                met.1.notify_all();
                let all = met.0.lock().unwrap();
                let limit = Duration::from_secs(5);
                drop(
                    met.1
                        .wait_timeout_while(all, limit, |met| met.len() < 4)
                        .unwrap(),
                );
                sender.send(index).unwrap();
            })
        })
        .collect();
    drop(sender);
    let mut order = Vec::new();
    while let Ok(index) = receiver.recv() {
        order.push(index);
    }
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    order
}

#[test]
fn a_seed_decides_the_whole_run() {
    let mut orders = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let [first, second] = [(); 2].map(|()| run(seeded(seed), crowd));
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!((first.points, first.time), (second.points, second.time));
        let [first, second] = [first, second].map(|outcome| outcome.result.unwrap().unwrap());
        assert_eq!(first, second, "seed {seed}");
        orders.insert(first);
    }
    assert!(orders.len() > 10, "{orders:?}");
}

#[test]
fn an_update_that_can_be_lost_is_lost_for_some_seed() {
    let sum = || {
        let sum = Arc::new(AtomicU64::new(0));
        let threads = [(); 2].map(|()| {
            let sum = sum.clone();
            spawn("adds", move || {
                let before = sum.load(SeqCst);
                sum.store(before + 1, SeqCst);
            })
        });
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        sum.load(SeqCst)
    };
    let sums: Vec<u64> = (0..1_000).map(|seed| value(seeded(seed), sum)).collect();
    assert!(sums.contains(&1) && sums.contains(&2), "one of them never");
}

#[test]
fn a_mutex_admits_one() {
    let sum = || {
        let sum = Arc::new(Mutex::new(0));
        let threads = [(); 3].map(|()| {
            let sum = sum.clone();
            spawn("adds", move || {
                let mut guard = sum.lock().unwrap();
                let before = *guard;
                thread::yield_now();
                *guard = before + 1;
            })
        });
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        *sum.lock().unwrap()
    };
    (0..200).for_each(|seed| assert_eq!(value(seeded(seed), sum), 3, "seed {seed}"));
}

#[test]
fn a_deadlock_is_found_and_names_its_threads() {
    let cross = || {
        let locks = Arc::new([Mutex::new(()), Mutex::new(())]);
        let threads = [(0, 1), (1, 0)].map(|(first, second)| {
            let locks = locks.clone();
            spawn(&format!("from {first}"), move || {
                let _first = locks[first].lock().unwrap();
                let _second = locks[second].lock().unwrap();
            })
        });
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    };
    let halts: Vec<Halt> = (0..1_000)
        .filter_map(|seed| run(seeded(seed), cross).result.err())
        .collect();
    let expected = "the launcher (a thread), from 0 (a lock), from 1 (a lock)";
    assert!(
        halts.len() < 1_000 && halts.contains(&Halt::Deadlock(expected.into())),
        "{halts:?}"
    );
}

#[test]
fn a_wait_that_nobody_ends_is_a_deadlock() {
    let waits = || {
        let (_sender, receiver) = mpsc::channel::<()>();
        receiver.recv()
    };
    let outcome = run(seeded(1), waits);
    let expected = Halt::Deadlock("the launcher (a notification)".into());
    assert_eq!(outcome.result.unwrap_err(), expected);
}

#[test]
fn time_passes_when_all_wait() {
    let begun = std::time::Instant::now();
    let waited = value(seeded(3), || {
        let begun = Instant::now();
        let sleeper = spawn("sleeper", || thread::sleep(Duration::from_secs(3600)));
        let (_sender, receiver) = mpsc::channel::<()>();
        let limit = Duration::from_secs(60);
        assert!(receiver.recv_timeout(limit).is_err());
        let early = begun.elapsed();
        sleeper.join().unwrap();
        [early, begun.elapsed()].map(|time| time.as_secs())
    });
    assert_eq!(waited, [60, 3600]);
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_killed_process_never_runs_again() {
    for after in 0..40 {
        let steps = value(with_fault(1, after, FaultKind::Kill), || {
            let steps = Arc::new(AtomicU64::new(0));
            let of_rank = steps.clone();
            drop(spawn("rank 0", move || {
                for _ in 0..20 {
                    of_rank.store(of_rank.load(SeqCst) + 1, SeqCst);
                    thread::sleep(Duration::from_secs(1));
                }
            }));
            thread::sleep(Duration::from_secs(100));
            steps.load(SeqCst)
        });
        // The fault is due after these points, and strikes when the process next waits.
        assert_eq!(
            steps,
            after.div_ceil(3).clamp(1, 20),
            "after {after} points"
        );
    }
}

#[test]
fn a_stopped_process_continues() {
    let seconds = value(
        with_fault(1, 5, FaultKind::Stop(Duration::from_secs(50))),
        || {
            let begun = Instant::now();
            let rank = spawn("rank 0", || {
                for _ in 0..10 {
                    thread::sleep(Duration::from_millis(1));
                }
            });
            rank.join().unwrap();
            begun.elapsed().as_secs()
        },
    );
    assert_eq!(seconds, 50);
}

#[test]
fn a_clock_jumps_for_its_own_process() {
    let jumps = value(
        with_fault(1, 3, FaultKind::Jump(Duration::from_secs(50))),
        || {
            let look = || {
                let begun = Instant::now();
                thread::sleep(Duration::from_secs(1));
                begun.elapsed().as_secs()
            };
            let ranks = ["rank 0", "rank 1"].map(|name| spawn(name, look));
            ranks.map(|rank| rank.join().unwrap())
        },
    );
    assert_eq!(jumps, [51, 1]);
}

#[test]
fn a_power_cut_ends_all() {
    let outcome = run(with_fault(0, 50, FaultKind::PowerCut), || {
        let lock = Mutex::new(());
        loop {
            let _guard = lock.lock();
            thread::yield_now();
        }
    });
    let result: Result<Result<(), _>, _> = outcome.result;
    assert_eq!(result.unwrap_err(), Halt::PowerCut);
    assert!(outcome.leaves_no_lock);
}

#[test]
fn threads_that_do_not_end_are_reported() {
    let settings = Settings {
        most_points: Some(1000),
        ..seeded(2)
    };
    let outcome = run(settings, || {
        let flag = AtomicU64::new(0);
        while flag.load(SeqCst) == 0 {}
    });
    assert!(matches!(outcome.result, Err(Halt::Endless(_))));
}

#[test]
fn panics_reach_those_who_join() {
    let texts = value(seeded(4), || {
        let failed = spawn("fails", || panic!("on purpose"));
        let of_thread = failed.join().unwrap_err();
        let of_scope = std::panic::catch_unwind(|| {
            thread::scope(|scope| {
                let ends =
                    Builder::new().spawn_scoped(scope, || thread::sleep(Duration::from_secs(1)));
                drop(ends.unwrap());
                panic!("in the scope")
            })
        });
        let of_scope: Box<dyn std::any::Any + Send> = match of_scope {
            Ok(()) => unreachable!("it panics"),
            Err(panic) => panic,
        };
        [of_thread, of_scope].map(|panic| panic.downcast_ref::<&str>().unwrap().to_string())
    });
    assert_eq!(texts, ["on purpose", "in the scope"]);
}

#[test]
fn a_cell_is_set_once_although_turns_pass_meanwhile() {
    let set = || {
        let (cell, made) = (Arc::new(OnceLock::new()), Arc::new(AtomicU64::new(0)));
        let threads = [1, 2, 3].map(|number| {
            let (cell, made) = (cell.clone(), made.clone());
            let make = move || {
                made.fetch_add(1, SeqCst);
                thread::sleep(Duration::from_millis(1));
                number
            };
            spawn("sets", move || *cell.get_or_init(make))
        });
        let found = threads.map(|thread| thread.join().unwrap());
        assert!(found.iter().all(|number| number == &found[0]), "{found:?}");
        made.load(SeqCst)
    };
    (0..50).for_each(|seed| assert_eq!(value(seeded(seed), set), 1));
}

#[test]
fn outside_a_simulation_the_primitives_are_those_of_the_system() {
    let order = crowd();
    assert_eq!(order.len(), 4);
    assert_eq!(process(), 0);
    let begun = Instant::now();
    thread::sleep(Duration::from_millis(2));
    assert!(begun.elapsed() >= Duration::from_millis(2));
}
