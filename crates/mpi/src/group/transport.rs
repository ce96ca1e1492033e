//! Groups of ranks, each with its own communicator.

use super::member::{HostTransfer, Member};
use crate::exchange::HostExchange;
use crate::job::Job;
use hal::{Error, Exchange, GroupId, Join, Result, Transfer, Transport};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes groups of this job's ranks.
#[derive(Debug)]
pub(crate) struct HostTransport {
    job: Arc<Job>,
    created: AtomicU64,
}

impl HostTransport {
    /// The transport of this process.
    pub(crate) fn new(job: Arc<Job>) -> HostTransport {
        HostTransport {
            job,
            created: AtomicU64::new(0),
        }
    }
}

impl Transport for HostTransport {
    fn create_group(&self) -> Result<GroupId> {
        let number = self.created.fetch_add(1, Ordering::Relaxed);
        Ok(GroupId(
            [self.job.place().rank as u64, number]
                .map(u64::to_le_bytes)
                .concat(),
        ))
    }

    fn join(&self, join: &Join) -> Result<Box<dyn Transfer>> {
        let rank = self.job.place().rank;
        if join.members.get(join.rank) != Some(&rank) {
            let found = format!(
                "rank {rank} of the job as rank {} of {:?}",
                join.rank, join.members
            );
            return Err(Error::invalid(
                format!("join {}", join.label),
                found,
                "its own place",
            ));
        }
        // MPI's own call waits without end, so it is made only once all members have arrived.
        let label = format!("join {}", join.label);
        let words = format!("{label} {:?}", join.id.0);
        HostExchange::new(self.job.clone(), &words, &join.members, 0, join.timeout).barrier()?;
        let tag = join
            .id
            .0
            .iter()
            .fold(0, |tag: i32, byte| (31 * tag + i32::from(*byte)) % 32_749);
        let comm = {
            let _open = self.job.enter()?;
            self.job
                .world()
                .create_group(&join.members, tag)
                .map_err(|fault| self.job.error(&fault, &label))?
        };
        self.job.keep_group(comm);
        Ok(Box::new(HostTransfer(Arc::new(Member::new(
            self.job.clone(),
            join,
            comm,
        )))))
    }
}
