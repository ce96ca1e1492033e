//! Places ranks at the positions of a grid, so that neighbours share a node.
//!
//! A launcher numbers ranks in any way: node after node, round-robin, on nodes of different sizes. A [`Grid`]
//! numbers its positions with the first axis of its order fastest. A [`Mapping`] connects the two. It assigns
//! whole blocks of positions, the largest first, to nodes with room for them, and splits a block into the
//! smaller blocks inside it only if no node has room for it. The result depends only on the nodes, so all ranks
//! compute the same one.

use crate::{Axis, Grid, machine::Route};
use std::collections::BTreeSet;

/// A rank for each position of a grid, and the node of each rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    rank_at: Vec<usize>,
    position_of: Vec<usize>,
    node_of: Vec<usize>,
    largest_node: usize,
}

/// The placement of an axis's groups on the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Number of groups.
    pub groups: usize,
    /// Number of groups with ranks on more than one node.
    pub across: usize,
    /// The path of the group that touches the most nodes.
    pub widest: Route,
}

impl Mapping {
    /// Places each rank at the position of its own number; `node_of` is the node of each rank.
    pub fn by_rank(node_of: Vec<usize>) -> Mapping {
        Mapping::new((0..node_of.len()).collect(), node_of)
    }

    /// Places neighbours on the inner axes of `grid` on the same node wherever the sizes of the nodes allow it.
    ///
    /// `node_of` is the node of each rank, for as many ranks as the grid has.
    pub fn by_node(grid: &Grid, node_of: Vec<usize>) -> Mapping {
        let mut rank_at = vec![0; node_of.len()];
        let mut rooms = Rooms::new(&node_of);
        let sizes = block_sizes(grid);
        rooms.deal(0, &sizes, &mut rank_at);
        Mapping::new(rank_at, node_of)
    }

    fn new(rank_at: Vec<usize>, node_of: Vec<usize>) -> Mapping {
        let mut position_of = vec![0; rank_at.len()];
        rank_at
            .iter()
            .enumerate()
            .for_each(|(position, &rank)| position_of[rank] = position);
        let largest_node = sizes_of(&node_of).into_iter().max().unwrap_or(1);
        Mapping {
            rank_at,
            position_of,
            node_of,
            largest_node,
        }
    }

    /// The rank at a position.
    pub fn rank_at(&self, position: usize) -> usize {
        self.rank_at[position]
    }

    /// The position of a rank.
    pub fn position_of(&self, rank: usize) -> usize {
        self.position_of[rank]
    }

    /// The node of a rank.
    pub fn node_of(&self, rank: usize) -> usize {
        self.node_of[rank]
    }

    /// Ranks of each node, in the order of nodes.
    pub fn node_sizes(&self) -> Vec<usize> {
        sizes_of(&self.node_of)
    }

    /// The ranks that differ from `rank` only on these axes, in the order of the group.
    ///
    /// # Panics
    /// When the rank is not in the world.
    pub fn members(&self, grid: &Grid, rank: usize, axes: &[Axis]) -> Vec<usize> {
        let positions = grid.group_over(self.position_of(rank), axes);
        positions
            .into_iter()
            .map(|position| self.rank_at(position))
            .collect()
    }

    /// The path over the nodes of a group of these ranks, which are `inner` positions apart.
    pub fn route(&self, members: &[usize], inner: usize) -> Route {
        let mut nodes: Vec<usize> = members.iter().map(|&rank| self.node_of(rank)).collect();
        nodes.sort_unstable();
        let runs = nodes
            .chunk_by(|one, other| one == other)
            .map(<[usize]>::len);
        let (num_nodes, most) = runs.fold((0, 1), |(nodes, most), run| (nodes + 1, most.max(run)));
        Route {
            size: members.len(),
            inner,
            nodes: num_nodes,
            per_node: most,
            rings: (self.largest_node / most).max(1),
            ranks_per_node: self.largest_node,
        }
    }

    /// The placement of the groups along `axis` of `grid` on the nodes.
    pub fn span(&self, grid: &Grid, axis: Axis) -> Span {
        let inner = grid.inner_product(axis);
        let route = |positions: Vec<usize>| {
            let members: Vec<_> = positions
                .into_iter()
                .map(|position| self.rank_at(position))
                .collect();
            self.route(&members, inner)
        };
        let routes: Vec<Route> = grid.groups(axis).into_iter().map(route).collect();
        let across = routes.iter().filter(|route| !route.in_node()).count();
        let widest = routes.iter().copied().max_by_key(|route| route.nodes);
        Span {
            groups: routes.len(),
            across,
            widest: widest.unwrap_or_else(|| self.route(&[], inner)),
        }
    }
}

fn sizes_of(node_of: &[usize]) -> Vec<usize> {
    let mut sizes = vec![0; node_of.iter().max().map_or(0, |last| last + 1)];
    node_of.iter().for_each(|&node| sizes[node] += 1);
    sizes
}

// Sizes of the nested blocks of the order: the full world first, single positions last.
fn block_sizes(grid: &Grid) -> Vec<usize> {
    let mut sizes: Vec<usize> = grid
        .order()
        .axes()
        .iter()
        .map(|&axis| grid.inner_product(axis))
        .collect();
    sizes.push(grid.world_size());
    sizes.dedup();
    sizes.reverse();
    sizes
}

// The ranks of each node that have no position yet.
struct Rooms {
    left: Vec<std::vec::IntoIter<usize>>,
    // (ranks left, node): the smallest sufficient room is used next.
    by_room: BTreeSet<(usize, usize)>,
}

impl Rooms {
    fn new(node_of: &[usize]) -> Rooms {
        let mut ranks = vec![Vec::new(); sizes_of(node_of).len()];
        node_of
            .iter()
            .enumerate()
            .for_each(|(rank, &node)| ranks[node].push(rank));
        let by_room = ranks
            .iter()
            .enumerate()
            .map(|(node, ranks)| (ranks.len(), node))
            .collect();
        Rooms {
            left: ranks.into_iter().map(Vec::into_iter).collect(),
            by_room,
        }
    }

    // Assigns the block of `sizes[0]` positions that begins at `start` to one node, or splits it into the next
    // smaller blocks.
    fn deal(&mut self, start: usize, sizes: &[usize], rank_at: &mut [usize]) {
        let [size, smaller @ ..] = sizes else { return };
        match self.by_room.range((*size, 0)..).next().copied() {
            Some(room) => self.fill(room, &mut rank_at[start..start + size]),
            None => {
                let step = smaller.first().copied().unwrap_or(*size);
                (start..start + size)
                    .step_by(step)
                    .for_each(|at| self.deal(at, smaller, rank_at));
            }
        }
    }

    fn fill(&mut self, (room, node): (usize, usize), block: &mut [usize]) {
        self.by_room.remove(&(room, node));
        self.by_room.insert((room - block.len(), node));
        block
            .iter_mut()
            .zip(&mut self.left[node])
            .for_each(|(place, rank)| *place = rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AxisOrder;

    fn grid(degrees: &str) -> Grid {
        Grid::new(degrees.parse().unwrap(), AxisOrder::default()).unwrap()
    }

    fn span(degrees: &str, node_of: &[usize], axis: Axis) -> (usize, usize) {
        let grid = grid(degrees);
        let span = Mapping::by_node(&grid, node_of.to_vec()).span(&grid, axis);
        (span.groups, span.across)
    }

    #[test]
    fn ranks_dealt_node_after_node_stay_where_they_are() {
        let node_of: Vec<_> = (0..16).map(|rank| rank / 4).collect();
        for degrees in ["x=2,z=4,data=2", "x=16", "x=8,data=2"] {
            let mapping = Mapping::by_node(&grid(degrees), node_of.clone());
            assert_eq!(mapping, Mapping::by_rank(node_of.clone()), "{degrees}");
        }
    }

    #[test]
    fn ranks_dealt_round_robin_are_sorted_by_node() {
        let node_of: Vec<_> = (0..8).map(|rank| rank % 2).collect();
        let mapping = Mapping::by_node(&grid("x=4,data=2"), node_of.clone());
        assert_eq!(
            (0..8).map(|at| mapping.rank_at(at)).collect::<Vec<_>>(),
            [0, 2, 4, 6, 1, 3, 5, 7]
        );
        assert_eq!(
            mapping.members(&grid("x=4,data=2"), 4, &[Axis::X]),
            [0, 2, 4, 6]
        );
        assert_eq!(
            mapping.members(&grid("x=4,data=2"), 4, &[Axis::Data]),
            [4, 5]
        );
        assert_eq!(span("x=4,data=2", &node_of, Axis::X), (2, 0));
        assert_eq!(
            Mapping::by_rank(node_of)
                .span(&grid("x=4,data=2"), Axis::X)
                .across,
            2
        );
    }

    #[test]
    fn nodes_of_different_sizes_split_as_few_groups_as_they_can() {
        let three_and_five = [0, 0, 0, 1, 1, 1, 1, 1];
        assert_eq!(span("x=2,data=4", &three_and_five, Axis::X), (4, 1));
        let two_and_six = [0, 0, 1, 1, 1, 1, 1, 1];
        assert_eq!(span("x=2,data=4", &two_and_six, Axis::X), (4, 0));
        // Assigned in order, ranks 0 to 3 would be split between the nodes.
        assert_eq!(span("x=4,data=2", &two_and_six, Axis::X), (2, 1));
        let six_and_three = [0, 0, 0, 0, 0, 0, 1, 1, 1];
        assert_eq!(span("x=3,data=3", &six_and_three, Axis::X), (3, 0));
    }

    #[test]
    fn every_rank_has_one_position() {
        for node_of in [
            vec![0, 1, 1, 0, 2, 2, 2, 1],
            vec![2, 1, 0, 0, 0, 0, 0, 0],
            vec![0; 8],
        ] {
            for degrees in ["x=2,y=2,z=2", "x=8", "data=4,pipeline=2"] {
                let mapping = Mapping::by_node(&grid(degrees), node_of.clone());
                let positions: BTreeSet<_> = (0..8).map(|rank| mapping.position_of(rank)).collect();
                assert_eq!(positions.len(), 8, "{degrees} on {node_of:?}");
                assert!((0..8).all(|at| mapping.position_of(mapping.rank_at(at)) == at));
            }
        }
    }

    #[test]
    fn routes_are_those_of_regular_nodes() {
        use crate::machine::Placement;
        let grid = grid("x=2,z=4,data=4");
        let mapping = Mapping::by_node(&grid, (0..32).map(|rank| rank / 8).collect());
        for axis in [Axis::X, Axis::Z, Axis::Data] {
            let strided = Route::strided(
                grid.inner_product(axis),
                grid.degree(axis),
                Placement::new(32, 8),
            );
            assert_eq!(mapping.span(&grid, axis).widest, strided, "{axis}");
        }
    }
}
