//! Which processes of a job work, where, and on which processors.

use crate::cores;
use crate::exchange::HostExchange;
use crate::introduction::Introduction;
use crate::job::Job;
use crate::raw::{self, Fault};
use bootstrap::world::RankLocation;
use hal::{Exchange, Result, lock};
use std::sync::{Arc, atomic::Ordering};

impl Job {
    /// Exchanges where every process runs, and which of them share a host.
    pub(crate) fn introduce(self: &Arc<Self>) -> Result<()> {
        let fault = |fault: Fault| self.error(&fault, "");
        let shared = self.world().split_shared(self.rank()).map_err(fault)?;
        let mine = Introduction {
            leader: shared.leader_in(self.world()).map_err(fault)?,
            process: std::process::id(),
            cores: self.origin.cores.clone(),
        };
        let members: Vec<usize> = (0..self.size()).collect();
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
        let place = place_of(working, self.rank());
        let words = match place {
            Some(place) => {
                let _ = self.origin.local_rank.set(place.local_rank);
                let leader = working[self.rank()].leader;
                let here = working.iter().filter(|one| one.leader == leader);
                let masks: Vec<_> = here.map(|one| one.cores.clone()).collect();
                let binding = cores::bind(place.local_rank, &masks);
                self.eager.store(binding.own_core, Ordering::Relaxed);
                self.threads.store(binding.threads, Ordering::Relaxed);
                format!(
                    "rank {} is {} of {} on {}, {}",
                    self.rank(),
                    place.local_rank,
                    place.local_size,
                    raw::host(),
                    binding.words
                )
            }
            None => format!("process {} stands by on {}", self.rank(), raw::host()),
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
        if ranks < self.size() {
            findings.insert(3, format!("{} stand by", self.size() - ranks));
        }
        *lock(&self.findings) = findings;
    }

    /// Rank and process id of the other processes on this host.
    pub(crate) fn peers(&self) -> impl Iterator<Item = (usize, i32)> {
        let all = self.introductions.get().map_or(&[][..], Vec::as_slice);
        let leader = all.get(self.rank()).map(|one| one.leader);
        let all = all.iter().enumerate();
        all.filter(move |(rank, one)| *rank != self.rank() && Some(one.leader) == leader)
            .map(|(rank, one)| (rank, one.process as i32))
    }
}

// The place of a rank among those that introduced themselves; `None` if it is not among them.
fn place_of(all: &[Introduction], rank: usize) -> Option<RankLocation> {
    let mine = all.get(rank)?;
    let mut leaders: Vec<usize> = all.iter().map(|one| one.leader).collect();
    leaders.sort_unstable();
    leaders.dedup();
    let here = |one: &&Introduction| one.leader == mine.leader;
    Some(RankLocation {
        rank,
        size: all.len(),
        node: leaders.binary_search(&mine.leader).unwrap_or(0),
        num_nodes: leaders.len(),
        local_rank: all[..rank].iter().filter(here).count(),
        local_size: all.iter().filter(here).count(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_placed_among_those_that_work() {
        let on = |leader| Introduction {
            leader,
            process: 1,
            cores: Vec::new(),
        };
        let all = [0, 0, 2, 2, 4].map(on);
        let told = |ranks: usize, rank| {
            let place = place_of(&all[..ranks], rank)?;
            let RankLocation {
                node,
                num_nodes,
                local_rank,
                local_size,
                ..
            } = place;
            Some([node, num_nodes, local_rank, local_size])
        };
        assert_eq!(told(5, 3), Some([1, 3, 1, 2]));
        assert_eq!(told(5, 4), Some([2, 3, 0, 1]));
        assert_eq!(told(3, 2), Some([1, 2, 0, 1]));
        assert_eq!(told(3, 3), None);
    }
}
