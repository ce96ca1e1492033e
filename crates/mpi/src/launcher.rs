//! The launcher as the program sees it: one job per process, joined when it is first needed and left when the
//! process ends.

use crate::exchange::{HostExchange, Meeting};
use crate::group::HostTransport;
use crate::job::Job;
use crate::monitor;
use crate::notice::Failed;
use crate::raw;
use bootstrap::world::{Launcher, RankLocation, World, WorldParts};
use bootstrap::{Lost, Processes};
use hal::{Error, Result, Transport, lock};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The ranks that mpirun or srun started, of which this process is one.
pub fn processes() -> &'static dyn Processes {
    &Mpi
}

#[derive(Debug)]
struct Mpi;

/// The job that this process is in: another after others have died.
static JOB: Mutex<Option<Result<Arc<Job>>>> = Mutex::new(None);
static ENDED: AtomicBool = AtomicBool::new(false);

fn job() -> Result<Arc<Job>> {
    let join = || {
        let job = Job::join()?;
        watch_panics();
        // SAFETY: the handler takes no arguments, does not unwind, and remains loaded in the program.
        unsafe { libc::atexit(at_exit) };
        Ok(job)
    };
    lock(&JOB).get_or_insert_with(join).clone()
}

// The job, if this process has joined one.
fn joined() -> Option<Arc<Job>> {
    lock(&JOB).clone()?.ok()
}

// A rank that unwinds may wait for its own streams, and these for other ranks, so the others must learn of the
// panic first.
fn watch_panics() {
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        previous(info);
        let thread = std::thread::current();
        let is_rank = thread
            .name()
            .is_some_and(|name| name == "main" || name.starts_with("rank "));
        if let Some(job) = joined().filter(|_| is_rank) {
            let place = info
                .location()
                .map_or("an unknown place".into(), ToString::to_string);
            let rank = job.rank();
            let reason = format!("panicked at {place}: {}", said(info));
            job.ending.tell(
                &job,
                Failed {
                    rank,
                    missing: Vec::new(),
                    reason,
                },
            );
        }
    }));
}

fn said<'a>(info: &'a std::panic::PanicHookInfo<'_>) -> &'a str {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

// MPI must be finalised before a process ends, even by a program that does not know of MPI.
extern "C" fn at_exit() {
    if let Some(job) = joined() {
        Mpi.end(u8::from(job.abort().raised().is_some()));
    }
}

impl Processes for Mpi {
    fn library(&self) -> String {
        raw::library()
    }

    fn join(&self) -> Result<RankLocation> {
        job().map(|job| job.place())
    }

    fn findings(&self) -> Vec<String> {
        job().map_or_else(|error| vec![error.to_string()], |job| job.findings())
    }

    fn threads(&self) -> usize {
        job().map_or(1, |job| job.threads())
    }

    fn world(&self, timeout: Duration) -> Result<World> {
        let job = job()?;
        let members: Vec<usize> = (0..job.place().size).collect();
        let occurrence = job.occurrence("world", &members);
        let everyone = HostExchange::new(job.clone(), "world", &members, occurrence, timeout);
        Ok(World::new(WorldParts {
            place: job.place(),
            launcher: Launcher::Mpi,
            timeout,
            abort: job.abort().clone(),
            progress: job.progress().clone(),
            rendezvous: Box::new(Meeting { job, timeout }),
            everyone: Arc::new(everyone),
        }))
    }

    fn transport(&self) -> Result<Arc<dyn Transport>> {
        Ok(Arc::new(HostTransport::new(job()?)))
    }

    fn fail(&self, reason: &str, has_returned: bool) -> Lost {
        let Ok(job) = job() else {
            return Lost {
                reason: reason.into(),
                ..Lost::default()
            };
        };
        let rank = job.rank();
        if !has_returned {
            job.ending.get_stuck();
        }
        job.ending.tell(
            &job,
            Failed {
                rank,
                missing: Vec::new(),
                reason: reason.into(),
            },
        );
        job.ending.settle(&job);
        match job.ending.lost(&job) {
            Some(lost) => lost,
            // The process that reports ends this one.
            None => loop {
                std::thread::park();
            },
        }
    }

    fn outlive(&self) -> Result<()> {
        let job = job()?;
        if !raw::outlives() {
            let needed = "a library with ULFM, such as Open MPI from 5.0 on: with this one a process that dies ends the job";
            return Err(Error::invalid("mpi", raw::library(), needed));
        }
        job.outlive();
        Ok(())
    }

    fn goes_on(&self) -> bool {
        // An error may come before the decision.
        joined().is_some_and(|job| {
            job.ending.settle(&job);
            job.ending.goes_on()
        })
    }

    fn reform(&self, choose: &dyn Fn(usize) -> Option<usize>) -> Result<RankLocation> {
        loop {
            let mut job = job()?;
            if job.ending.goes_on() {
                job = job.next()?;
                *lock(&JOB) = Some(Ok(job.clone()));
            }
            let size = job.size();
            let ranks = choose(size).filter(|ranks| (1..=size).contains(ranks));
            let ranks = ranks.ok_or_else(|| {
                Error::invalid(
                    "ranks",
                    format!("{size} processes that are left"),
                    "a number for which there is a grid",
                )
            })?;
            job.employ(ranks);
            if job.rank() < ranks {
                return Ok(job.place());
            }
            self.stand_by(&job);
        }
    }

    fn ordinal(&self) -> usize {
        joined().map_or(0, |job| job.ordinal())
    }

    fn is_ending(&self) -> bool {
        joined().is_some_and(|job| job.abort().raised().is_some() && !job.ending.may_go_on(&job))
    }

    fn end(&self, status: u8) {
        let Some(job) = joined() else { return };
        if ENDED.swap(true, Ordering::AcqRel) {
            return;
        }
        if status != 0 {
            raw::abort(i32::from(status));
        }
        if job.abort().raised().is_some() || !all_have_ended(&job) {
            // Too late to continue: this rank has done its work, and the others cannot repeat theirs without it.
            let lost = self.fail("", true);
            if job.ending.reports(&job) {
                eprintln!("fascicle: {}", monitor::report(lost));
            }
            raw::abort(1);
        }
        leave(&job);
    }
}

impl Mpi {
    // Waits until the job has ended, and then ends this process; returns when other processes have died and it may be needed.
    fn stand_by(&self, job: &Arc<Job>) {
        if all_have_ended(job) {
            ENDED.store(true, Ordering::Release);
            leave(job);
            std::process::exit(0);
        }
        // Unless the survivors continue, this returns in the process that reports.
        let lost = self.fail("", true);
        if !job.ending.goes_on() {
            eprintln!("fascicle: {}", monitor::report(lost));
            raw::abort(1);
        }
    }
}

// Waits for every process; without a timeout, because another rank may legitimately still be at work.
fn all_have_ended(job: &Arc<Job>) -> bool {
    let members: Vec<usize> = (0..job.size()).collect();
    let everyone = HostExchange::new(job.clone(), "end", &members, 0, Duration::MAX);
    hal::Exchange::barrier(&everyone).is_ok()
}

fn leave(job: &Job) {
    job.leave();
    job.ending.stop();
    // Open MPI 5.0 sometimes waits in it for processes that have died. Launchers that let processes die take the exit status alone.
    if !job.has_outlived() {
        raw::finish().ok();
    }
}
