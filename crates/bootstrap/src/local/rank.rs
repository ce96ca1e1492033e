//! One rank's thread, and the state that the threads of a job share.

use super::board::{Board, Seat};
use super::{Options, StandIns, panics};
use crate::failure::FailureKind;
use crate::progress::{LastSeen, Progress};
use crate::world::{Launcher, World, WorldParts};
use hal::sync::OnceLock;
use std::{fmt, sync::Arc};

/// How a rank ended.
pub(super) type Outcome<T, E> = Result<T, FailureKind<E>>;

/// State shared by the ranks of a job and the thread that started them.
pub(super) struct Job {
    pub(super) board: Arc<Board>,
    pub(super) progress: Arc<Progress>,
    options: Options,
    at_failure: OnceLock<Vec<LastSeen>>,
}

impl Job {
    pub(super) fn new(options: Options) -> Self {
        let stand_ins = options
            .stand_ins
            .clone()
            .unwrap_or_else(|| StandIns::all_live(options.ranks));
        let progress = Arc::new(Progress::new(stand_ins.live().to_vec()));
        let board = Arc::new(Board::new(stand_ins, options.timeout));
        Self {
            board,
            progress,
            options,
            at_failure: OnceLock::new(),
        }
    }

    /// World ranks that run, in ascending order.
    pub(super) fn live(&self) -> &[usize] {
        self.board.stand_ins.live()
    }

    /// Ends the job because of `rank`, unless the job is already ending.
    pub(super) fn fail(&self, rank: usize, reason: &str) {
        self.board.abort.raise(rank, reason);
        self.at_failure();
    }

    /// What the ranks were doing when this was first called, which happens as soon as a failure is known.
    pub(super) fn at_failure(&self) -> &[LastSeen] {
        self.at_failure.get_or_init(|| self.progress.last_seen())
    }

    fn world(&self, rank: usize) -> World {
        World::new(WorldParts {
            place: self.options.place(rank),
            launcher: Launcher::Local,
            timeout: self.board.timeout,
            abort: self.board.abort.clone(),
            progress: self.progress.clone(),
            rendezvous: Box::new(Seat {
                board: self.board.clone(),
                rank,
            }),
            everyone: Arc::new(self.board.everyone(rank)),
        })
    }
}

/// Runs `body` as `rank`, on the rank's own thread, and reports to the job how it ended.
pub(super) fn run_rank<T, E: fmt::Display>(
    job: &Job,
    rank: usize,
    body: impl FnOnce(World) -> Result<T, E>,
) -> Outcome<T, E> {
    // The error is formatted in here because its Display is also the caller's code and may panic.
    let told = || body(job.world(rank)).map_err(|error| (error.to_string(), error));
    let outcome = match panics::watch(rank, told) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err((reason, error))) => Err((reason, FailureKind::Error(error))),
        Err(said) => Err((said.clone(), FailureKind::Panic(said))),
    };
    match &outcome {
        Ok(_) => job.progress.beat(rank, "returned"),
        Err((reason, _)) => job.fail(rank, reason),
    }
    // After the signal, because a waiting rank that sees this one ended must find its reason.
    job.board.end(rank);
    outcome.map_err(|(_, kind)| kind)
}
