//! The launcher as the program sees it: one job per process, joined when it is first needed and left when the
//! process ends.

use crate::exchange::{HostExchange, Meeting};
use crate::group::HostTransport;
use crate::job::Job;
use crate::notice::Failed;
use crate::raw;
use bootstrap::world::{Launcher, RankLocation, World, WorldParts};
use bootstrap::{Lost, Processes};
use hal::{Result, Transport};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The ranks that mpirun or srun started, of which this process is one.
pub fn processes() -> &'static dyn Processes {
    &Mpi
}

#[derive(Debug)]
struct Mpi;

static JOB: OnceLock<Result<Arc<Job>>> = OnceLock::new();
static ENDED: AtomicBool = AtomicBool::new(false);

fn job() -> Result<Arc<Job>> {
    JOB.get_or_init(|| {
        let job = Job::join()?;
        watch_panics(&job);
        // SAFETY: the handler takes no arguments, does not unwind, and remains loaded in the program.
        unsafe { libc::atexit(at_exit) };
        Ok(job)
    })
    .clone()
}

// A rank that unwinds may wait for its own streams, and these for other ranks, so the others must learn of the
// panic first.
fn watch_panics(job: &Arc<Job>) {
    let (job, previous) = (job.clone(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| {
        previous(info);
        let thread = std::thread::current();
        if thread
            .name()
            .is_some_and(|name| name == "main" || name.starts_with("rank "))
        {
            let place = info
                .location()
                .map_or("an unknown place".into(), ToString::to_string);
            let rank = job.place().rank;
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
    if let Some(Ok(job)) = JOB.get() {
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
        job().map_or_else(
            |error| vec![error.to_string()],
            |job| job.findings().to_vec(),
        )
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

    fn fail(&self, reason: &str) -> Lost {
        let Ok(job) = job() else {
            return Lost {
                reason: reason.into(),
                ..Lost::default()
            };
        };
        let rank = job.place().rank;
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

    fn is_ending(&self) -> bool {
        matches!(JOB.get(), Some(Ok(job)) if job.abort().raised().is_some())
    }

    fn end(&self, status: u8) {
        let Some(Ok(job)) = JOB.get() else { return };
        if ENDED.swap(true, Ordering::AcqRel) {
            return;
        }
        if status != 0 || job.abort().raised().is_some() {
            raw::abort(i32::from(status.max(1)));
        }
        // Without a timeout, because another rank may legitimately still be at work.
        let members: Vec<usize> = (0..job.place().size).collect();
        let everyone = HostExchange::new(job.clone(), "end", &members, 0, Duration::MAX);
        if hal::Exchange::barrier(&everyone).is_err() {
            self.fail("");
            raw::abort(1);
        }
        job.leave();
        job.ending.stop();
        raw::finish().ok();
    }
}
