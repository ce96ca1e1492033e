//! The placement of a group of ranks on the nodes.

/// The number of ranks on each node, the same on all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    /// Number of ranks in the job.
    pub ranks: usize,
    /// Number of ranks per node, one for each device in use.
    pub per_node: usize,
}

impl Placement {
    /// Ranks placed on nodes of `devices` devices, node after node.
    pub fn new(ranks: usize, devices: usize) -> Placement {
        Placement {
            ranks,
            per_node: devices.clamp(1, ranks.max(1)),
        }
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.ranks.div_ceil(self.per_node)
    }
}

/// The path of a group's ring over the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// Number of ranks in the group.
    pub size: usize,
    /// Distance between neighbours: the product of the sizes of the axes inside.
    pub inner: usize,
    /// Number of nodes that it touches.
    pub nodes: usize,
    /// The most of its ranks on any one of them.
    pub per_node: usize,
    /// Sibling rings that leave the same node, including this one.
    pub rings: usize,
    /// Number of ranks per node.
    pub ranks_per_node: usize,
}

impl Route {
    /// The path of the group of these world ranks, given in ascending order.
    pub fn of(members: &[usize], placement: Placement) -> Route {
        let per_node = placement.per_node;
        let inner = match members {
            [first, second, ..] => second.abs_diff(*first),
            _ => 1,
        };
        let (mut nodes, mut run, mut most, mut last) = (0, 0, 0, usize::MAX);
        for member in members {
            let node = member / per_node;
            run = if node == last { run + 1 } else { 1 };
            nodes += usize::from(node != last);
            (last, most) = (node, most.max(run));
        }
        let rings = (per_node / most.max(1)).max(1);
        Route {
            size: members.len(),
            inner,
            nodes,
            per_node: most,
            rings,
            ranks_per_node: per_node,
        }
    }

    /// The path of a group of `size` ranks with `inner` ranks between neighbours, on nodes that are filled in
    /// order.
    pub fn strided(inner: usize, size: usize, placement: Placement) -> Route {
        let node = placement.per_node;
        let per_node = if inner >= node {
            1
        } else {
            (node / inner).min(size)
        };
        let nodes = size.div_ceil(per_node);
        let rings = (node / per_node).max(1);
        Route {
            size,
            inner,
            nodes,
            per_node,
            rings,
            ranks_per_node: node,
        }
    }

    /// Whether it stays inside a node.
    pub fn in_node(&self) -> bool {
        self.nodes <= 1
    }

    /// The part of a hierarchical collective inside a node.
    pub fn inside(&self) -> Route {
        Route {
            size: self.per_node,
            nodes: 1,
            ..*self
        }
    }

    /// The part of a hierarchical collective between the nodes: one ring for each rank of the node.
    pub fn across(&self) -> Route {
        let node = self.ranks_per_node;
        Route {
            size: self.nodes,
            inner: node,
            nodes: self.nodes,
            per_node: 1,
            rings: node,
            ranks_per_node: node,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strided_group_lies_as_its_members_do() {
        for (ranks, node) in [(64, 4), (64, 8), (6, 8), (96, 4)] {
            let placement = Placement::new(ranks, node);
            for inner in [1, 2, 4, 8] {
                for size in [2, 3, 4, 6]
                    .into_iter()
                    .filter(|size| ranks % (size * inner) == 0)
                {
                    let members: Vec<_> = (0..size).map(|at| at * inner).collect();
                    let (of, strided) = (
                        Route::of(&members, placement),
                        Route::strided(inner, size, placement),
                    );
                    assert_eq!(
                        (of.nodes, of.per_node),
                        (strided.nodes, strided.per_node),
                        "{inner} {size} {placement:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn rings_share_a_node() {
        let placement = Placement::new(64, 8);
        assert_eq!(Route::strided(1, 16, placement).rings, 1);
        assert_eq!(Route::strided(2, 8, placement).rings, 2);
        assert_eq!(Route::strided(8, 4, placement).rings, 8);
        assert_eq!(
            Route::strided(1, 16, placement).across(),
            Route::strided(8, 2, placement)
        );
    }
}
