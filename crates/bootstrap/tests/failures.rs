//! Jobs of threads that fail: the first failure is reported, and no rank waits forever.

use fascicle_bootstrap::local::{Options, run};
use fascicle_bootstrap::{Failure, FailureKind, World};
use hal::{Error, Result};
use std::{
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    thread::sleep,
    time::{Duration, Instant},
};

/// Lets `fails` fail while the other ranks wait for it, and checks that they stop soon.
fn fail_at<E: std::fmt::Display + From<Error> + Send + 'static>(
    fails: usize,
    how: fn() -> std::result::Result<(), E>,
) -> Failure<E> {
    let start = Instant::now();
    let failure = run(Options::new(8), move |world| {
        world.everyone().barrier()?;
        if world.rank() == fails {
            how()
        } else {
            Ok(world.everyone().barrier()?)
        }
    });
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "the others waited for the timeout"
    );
    failure.expect_err("one rank failed")
}

#[test]
fn a_rank_that_returns_an_error_ends_the_job_with_it() {
    let error = || Error::invalid("load", "0 tokens", "at least 1");
    let failure = fail_at(5, || Err(Error::invalid("load", "0 tokens", "at least 1")));
    assert_eq!(
        (failure.rank, &failure.kind),
        (5, &FailureKind::Error(error()))
    );
    assert_eq!(
        failure.to_string(),
        "rank 5 failed: load: 0 tokens, needs at least 1"
    );
    assert_eq!(failure.others.failed.len(), 7);
    assert!(
        failure
            .others
            .failed
            .iter()
            .all(|(_, reason)| reason.contains("because rank 5 failed: load"))
    );
    assert!(failure.others.stuck.is_empty());
}

#[test]
fn a_rank_that_panics_ends_the_job_with_its_words_and_place() {
    let failure = fail_at::<Error>(2, || panic!("loss is {}", f32::NAN));
    let FailureKind::Panic(said) = &failure.kind else {
        panic!("{failure}")
    };
    assert!(
        said.starts_with("panicked at ") && said.contains("failures.rs:"),
        "{said}"
    );
    assert!(said.ends_with(": loss is NaN"), "{said}");
    assert_eq!(failure.rank, 2);
}

#[test]
fn ranks_that_panic_on_the_abort_are_not_the_cause() {
    let failure = run(Options::new(4), |world| {
        if world.rank() == 3 {
            return Err("disk full".to_string());
        }
        world.everyone().barrier().expect("all come");
        Ok(())
    })
    .unwrap_err();
    assert_eq!(
        (failure.rank, failure.error().map(String::as_str)),
        (3, Some("disk full"))
    );
}

#[test]
fn of_several_failures_the_first_is_told() {
    let (turn, together) = (AtomicUsize::new(0), Barrier::new(4));
    let failure = run(Options::new(4), move |world| {
        together.wait();
        // Ranks fail in the order 2, 1, 0, 3.
        let mine = [2, 1, 0, 3][world.rank()];
        while turn.load(Ordering::SeqCst) < mine || (mine > 0 && world.abort().raised().is_none()) {
            std::thread::yield_now();
        }
        turn.fetch_add(1, Ordering::SeqCst);
        Err::<(), _>(format!("own error of rank {}", world.rank()))
    })
    .unwrap_err();
    assert_eq!(failure.to_string(), "rank 2 failed: own error of rank 2");
    assert_eq!(failure.others.failed.len(), 3);
    assert_eq!(
        failure
            .report()
            .lines()
            .filter(|line| line.starts_with("then rank "))
            .count(),
        3
    );
}

#[test]
fn a_stuck_rank_is_left_behind_and_named_with_its_last_words() {
    let start = Instant::now();
    let options = Options::new(3)
        .with_timeout(Duration::from_millis(150))
        .with_grace(Duration::from_millis(200));
    let failure = run(options, |world: World| -> Result<()> {
        world.beat("step 17 forward");
        world.everyone().barrier()?;
        if world.rank() == 1 {
            sleep(Duration::from_secs(20));
        }
        world.everyone().barrier()
    })
    .unwrap_err();
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "it waited for the stuck rank"
    );
    assert!(
        matches!(failure.error(), Some(Error::Timeout { missing, .. }) if missing == &[1]),
        "{failure}"
    );
    assert_eq!(failure.others.stuck, [1]);
    let stuck = "; rank 1 is stuck, last in `step 17 forward` ";
    assert!(failure.to_string().contains(stuck), "{failure}");
    let seen = &failure.others.last_seen;
    assert!(
        seen[1].age >= Duration::from_millis(350),
        "its age leaves out the grace: {:?}",
        seen[1].age
    );
}

#[test]
fn the_report_tells_what_each_rank_was_in() {
    let options = Options::new(3).with_timeout(Duration::from_millis(100));
    let failure = run(options, |world: World| -> Result<()> {
        world.beat(["step 4 forward", "step 3 backward", "step 4 forward"][world.rank()]);
        assert_eq!(world.last_seen().len(), 3);
        while world.rank() == 1 {
            world.abort().check()?;
            sleep(Duration::from_millis(5));
        }
        world.everyone().barrier()
    })
    .unwrap_err();
    let report = failure.report();
    assert!(
        report.contains("\nranks 0 and 2 were last in `step 4 forward` "),
        "{report}"
    );
    assert!(
        report.contains("\nrank 1 was last in `step 3 backward` "),
        "{report}"
    );
}

#[test]
fn a_signal_raised_by_a_layer_above_is_never_silent() {
    let failure = run(Options::new(2), |world| {
        if world.rank() == 1 {
            world.abort().raise(1, "a kernel failed late");
        }
        Ok::<_, String>(())
    })
    .unwrap_err();
    assert_eq!(
        (failure.rank, &failure.kind),
        (1, &FailureKind::Raised("a kernel failed late".into()))
    );
}

#[test]
fn no_rank_is_refused_and_one_has_its_own_thread() {
    let failure = run(Options::new(0), |_| Ok::<_, String>(())).unwrap_err();
    assert_eq!(
        failure.to_string(),
        "rank 0 did not start: run: 0 ranks, needs at least 1"
    );
    let names = run(Options::new(1), |_| {
        Ok::<_, String>(std::thread::current().name().map(str::to_owned))
    });
    assert_eq!(names.unwrap(), [Some("rank 0".to_string())]);
}

#[test]
fn values_come_back_and_jobs_may_run_at_a_time() {
    let jobs =
        (1..=4).map(|size| std::thread::spawn(move || run(Options::new(size), work).unwrap()));
    let jobs: Vec<_> = jobs.collect();
    for (job, size) in jobs.into_iter().zip(1..) {
        assert_eq!(
            job.join().unwrap(),
            (0..size).map(|rank| rank * size).collect::<Vec<_>>()
        );
    }

    fn work(world: World) -> Result<usize> {
        world.everyone().barrier()?;
        Ok(world.rank() * world.size())
    }
}
