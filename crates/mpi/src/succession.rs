//! From a job whose processes have died to the job of the survivors.

use crate::job::{Job, first, no_watch};
use crate::raw::{self, Comm};
use crate::start::StartWatch;
use hal::{Result, lock};
use std::sync::Arc;

impl Job {
    /// The job of the survivors. Each of them calls it, once its threads have left MPI.
    ///
    /// # Errors
    /// [`hal::Error::Vendor`] if MPI does not find them.
    pub(crate) fn next(self: &Arc<Job>) -> Result<Arc<Job>> {
        let _watch = StartWatch::begin(self.start_limit).map_err(no_watch)?;
        self.retire();
        let mut base = self.base;
        // Others may die meanwhile. Whatever the call in which a process learns of it, all go back to the same communicator, which is
        // revoked so that none waits in such a call.
        loop {
            base = base.shrink().map_err(first)?;
            let (origin, limit) = (self.origin.clone(), self.start_limit);
            let mut job = match Job::connect(base, origin, self.longest_bytes(), limit) {
                Err(_) if base.dead().is_ok_and(|dead| !dead.is_empty()) => {
                    base.revoke();
                    continue;
                }
                job => job.map_err(first)?,
            };
            job.outlive();
            job.has_outlived = true;
            let job = Arc::new(job);
            let Err(error) = job.begin() else {
                return Ok(job);
            };
            job.ending.settle(&job);
            if !job.ending.goes_on() {
                return Err(error);
            }
            base.revoke();
            job.retire();
        }
    }

    // Ends what watches the job. MPI may know its letters and communicators for as long as the process lives.
    fn retire(self: &Arc<Job>) {
        self.ending.stop();
        std::mem::forget(self.clone());
    }

    /// Remembers a group's communicator.
    pub(crate) fn keep_group(&self, group: Comm) {
        lock(&self.groups).push(group);
    }

    /// Ends every message of the job, on all ranks, so that MPI lets go of its memory and no thread waits in it.
    pub(crate) fn revoke(&self) {
        lock(&self.groups).iter().for_each(|group| group.revoke());
        self.world().revoke();
        self.post().revoke();
    }

    /// Ends the job if processes have died, as far as MPI knows; whether they have.
    pub(crate) fn note_deaths(&self) -> bool {
        let dead = self.post().dead();
        dead.iter().for_each(|&rank| self.ending.died(self, rank));
        !dead.is_empty()
    }

    /// What is said of a process that has died.
    pub(crate) fn obituary(&self, rank: usize) -> String {
        match self.peers().find(|(peer, _)| *peer == rank) {
            Some((_, process)) => format!("its process {process} on {} has died", raw::host()),
            None => "its process has died".into(),
        }
    }
}
