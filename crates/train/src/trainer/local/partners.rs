//! Which rank keeps a copy of another rank's file.
//!
//! Nodes are partners in pairs, the last three of an odd number in a ring (the groups of Gemini, Wang et al., SOSP 2023): each
//! file is on two nodes, and a failure loses files only if both nodes of a pair are lost. The ranks at the same place of their
//! nodes exchange their files among themselves.

use crate::Result;
use bootstrap::World;
use hal::Exchange;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where a rank sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Seat {
    pub(super) node: usize,
    pub(super) local_rank: usize,
}

impl Seat {
    pub(super) fn of(world: &World) -> Seat {
        Seat {
            node: world.node(),
            local_rank: world.local_rank(),
        }
    }
}

/// The ranks with which a rank exchanges files.
#[derive(Clone, Debug)]
pub(super) struct Partners {
    pub(super) group: Arc<dyn Exchange>,
    /// The world rank of each rank of the group.
    pub(super) members: Vec<usize>,
    /// The ranks of the group whose files this one keeps, by their index there.
    pub(super) kept: Vec<usize>,
}

impl Partners {
    /// This rank's, given where every rank sits; none on a single node.
    pub(super) fn of(world: &World, seats: &[Seat]) -> Result<Option<Partners>> {
        let rank = world.rank();
        let Some(members) = column(seats, rank) else {
            return Ok(None);
        };
        let kept = (0..members.len())
            .filter(|member| members[keeper(seats, &members, *member)] == rank)
            .collect();
        Ok(Some(Partners {
            group: world.exchange("local checkpoints of partners", &members)?,
            members,
            kept,
        }))
    }
}

// The ranks that exchange files with a rank, itself included, by node and place; none on a single node.
fn column(seats: &[Seat], rank: usize) -> Option<Vec<usize>> {
    let num_nodes = seats.iter().map(|seat| seat.node + 1).max()?;
    if num_nodes < 2 {
        return None;
    }
    let group = |node: usize| (node / 2).min(num_nodes / 2 - 1);
    let own = group(seats[rank].node);
    let size = |node: usize| seats.iter().filter(|seat| seat.node == node).count();
    // Where a node has fewer ranks than its partner, one of them has several partners there.
    let width = (0..num_nodes)
        .filter(|node| group(*node) == own)
        .map(size)
        .min()?;
    let place = |rank: usize| seats[rank].local_rank % width;
    let mut members: Vec<usize> = (0..seats.len())
        .filter(|other| group(seats[*other].node) == own && place(*other) == place(rank))
        .collect();
    members.sort_by_key(|member| seats[*member]);
    Some(members)
}

// The first rank after a member, in the ring of its group, that sits on another node.
fn keeper(seats: &[Seat], members: &[usize], member: usize) -> usize {
    let node = |index: usize| seats[members[index]].node;
    let ring = (1..members.len()).map(|ahead| (member + ahead) % members.len());
    let other = ring.into_iter().find(|other| node(*other) != node(member));
    other.expect("a bug: a column has ranks of each node of its group")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(sizes: &[usize]) -> Vec<Seat> {
        let of_node = |(node, size): (usize, &usize)| {
            (0..*size).map(move |local_rank| Seat { node, local_rank })
        };
        sizes.iter().enumerate().flat_map(of_node).collect()
    }

    // The rank that keeps each rank's file.
    fn keepers(seats: &[Seat]) -> Vec<usize> {
        let keeper_of = |rank: usize| {
            let members = column(seats, rank).unwrap();
            let own = members.iter().position(|member| *member == rank).unwrap();
            members[keeper(seats, &members, own)]
        };
        (0..seats.len()).map(keeper_of).collect()
    }

    #[test]
    fn nodes_keep_each_others_files_in_pairs() {
        assert_eq!(column(&seats(&[4]), 0), None);
        assert_eq!(keepers(&seats(&[1, 1])), [1, 0]);
        assert_eq!(keepers(&seats(&[2, 2, 2, 2])), [2, 3, 0, 1, 6, 7, 4, 5]);
        assert_eq!(keepers(&seats(&[1, 1, 1])), [1, 2, 0]);
        assert_eq!(keepers(&seats(&[1; 5])), [1, 0, 3, 4, 2]);
    }

    #[test]
    fn every_file_is_on_two_nodes_whatever_their_numbers_of_ranks() {
        for sizes in [&[3, 1][..], &[1, 4], &[2, 3, 5], &[1, 1, 7, 2, 3], &[4, 4]] {
            let seats = seats(sizes);
            for (rank, keeper) in keepers(&seats).into_iter().enumerate() {
                assert_ne!(
                    seats[rank].node, seats[keeper].node,
                    "{sizes:?}, rank {rank}"
                );
                // Both agree on who exchanges with whom.
                assert_eq!(column(&seats, rank), column(&seats, keeper));
            }
        }
    }

    #[test]
    fn ranks_may_lie_across_nodes() {
        let seats: Vec<Seat> = [(0, 0), (1, 0), (0, 1), (1, 1)]
            .map(|(node, local_rank)| Seat { node, local_rank })
            .to_vec();
        assert_eq!(keepers(&seats), [1, 0, 3, 2]);
    }
}
