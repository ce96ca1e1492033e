//! The first message between processes: where each runs, and which processors it may use there.

use bootstrap::world::RankLocation;

/// The facts that a process sends about itself.
#[derive(Clone, Debug)]
pub(crate) struct Introduction {
    /// World rank of the first rank on its host.
    pub(crate) leader: usize,
    /// Its process id on its host.
    pub(crate) process: u32,
    /// Processors that it may use.
    pub(crate) cores: Vec<usize>,
}

impl Introduction {
    /// As bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let words = [self.leader, self.process as usize]
            .into_iter()
            .chain(self.cores.iter().copied());
        words.flat_map(|word| (word as u64).to_le_bytes()).collect()
    }

    /// From such bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Introduction {
        let mut words = bytes.chunks_exact(8).map(|word| {
            u64::from_le_bytes(
                word.try_into()
                    .expect("chunks of eight bytes are eight bytes"),
            ) as usize
        });
        let (leader, process) = (words.next().unwrap_or(0), words.next().unwrap_or(0) as u32);
        Introduction {
            leader,
            process,
            cores: words.collect(),
        }
    }
}

/// The place of a rank among those that introduced themselves; `None` if it is not among them.
pub(crate) fn place(all: &[Introduction], rank: usize) -> Option<RankLocation> {
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
            let place = place(&all[..ranks], rank)?;
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

    #[test]
    fn introductions_survive_the_way() {
        let sent = Introduction {
            leader: 4,
            process: 77,
            cores: vec![0, 3, 130],
        };
        let come = Introduction::decode(&sent.encode());
        assert_eq!(
            (come.leader, come.process, come.cores),
            (4, 77, vec![0, 3, 130])
        );
    }
}
