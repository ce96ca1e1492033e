//! Which processes of a job work, where, and on which processors.

use crate::cores;
use crate::exchange::HostExchange;
use crate::introduction::{self, Introduction};
use crate::job::Job;
use crate::raw::{self, Fault};
use hal::{Exchange, Result, lock};
use std::sync::{Arc, atomic::Ordering};

impl Job {
    /// Exchanges where every process runs, and which of them share a host.
    pub(crate) fn introduce(self: &Arc<Self>) -> Result<()> {
        let fault = |fault: Fault| self.error(&fault, "");
        let shared = self.world.split_shared(self.rank).map_err(fault)?;
        let mine = Introduction {
            leader: shared.leader_in(self.world).map_err(fault)?,
            process: std::process::id(),
            cores: self.origin.cores.clone(),
        };
        let members: Vec<usize> = (0..self.size).collect();
        let everyone =
            HostExchange::new(self.clone(), "introduction", &members, 0, self.start_limit);
        let all = everyone.all_gather(&mine.encode())?;
        let all = all.iter().map(|bytes| Introduction::decode(bytes));
        drop(self.introductions.set(all.collect()));
        Ok(())
    }

    /// Gives the first `ranks` processes their places and processors; the others stand by. All processes call it.
    pub(crate) fn employ(&self, ranks: usize) {
        let all = self.introductions.get().map_or(&[][..], Vec::as_slice);
        let working = &all[..ranks.min(all.len())];
        let place = introduction::place(working, self.rank);
        let words = match place {
            Some(place) => {
                let _ = self.origin.local_rank.set(place.local_rank);
                let leader = working[self.rank].leader;
                let here = working.iter().filter(|one| one.leader == leader);
                let masks: Vec<_> = here.map(|one| one.cores.clone()).collect();
                let binding = cores::bind(place.local_rank, &masks);
                self.eager.store(binding.own_core, Ordering::Relaxed);
                self.threads.store(binding.threads, Ordering::Relaxed);
                format!(
                    "rank {} is {} of {} on {}, {}",
                    self.rank,
                    place.local_rank,
                    place.local_size,
                    raw::host(),
                    binding.words
                )
            }
            None => format!("process {} stands by on {}", self.rank, raw::host()),
        };
        let hosts = place.map_or(0, |place| place.num_nodes);
        *lock(&self.place) = place;
        let mut findings = vec![
            raw::library(),
            "thread level MPI_THREAD_MULTIPLE".into(),
            format!(
                "{ranks} ranks on {hosts} host{}",
                if hosts == 1 { "" } else { "s" }
            ),
            words,
        ];
        if ranks < self.size {
            findings.insert(3, format!("{} stand by", self.size - ranks));
        }
        *lock(&self.findings) = findings;
    }

    /// Rank and process id of the other processes on this host.
    pub(crate) fn peers(&self) -> impl Iterator<Item = (usize, i32)> {
        let all = self.introductions.get().map_or(&[][..], Vec::as_slice);
        let leader = all.get(self.rank).map(|one| one.leader);
        let all = all.iter().enumerate();
        all.filter(move |(rank, one)| *rank != self.rank && Some(one.leader) == leader)
            .map(|(rank, one)| (rank, one.process as i32))
    }
}
