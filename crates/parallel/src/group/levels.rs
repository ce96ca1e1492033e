//! Collectives of a group that spans nodes, in two levels: inside each node, and across nodes by aligned ranks.
//!
//! With p members on each of m nodes, rank l of a node communicates only about the l-th shard with the ranks l
//! of the other nodes. So each byte leaves a node once, and all of its ranks send at the same time. Sums are
//! added in another order than in the flat form, so they differ from it by rounding; gathers are bit-identical.

use super::{Purpose, join};
use crate::{Context, Hierarchical, counters::Operation};
use grid::{
    machine::{Algorithm, Operation as Costed, Route},
    shard_range,
};
use hal::Counts;
use std::cell::OnceCell;
use tensor::{Communicator, ReduceOp, Result, Stream, Tensor, UnevenShards};

// From this size on, transfer outweighs the two or three start-up costs, if no machine description gives a
// better limit.
const LARGE_BYTES: usize = 1 << 20;

/// How a group of p members on each of m nodes is cut into two levels.
#[derive(Debug)]
pub(super) struct Levels {
    label: String,
    purpose: Purpose,
    route: Route,
    // World ranks of this rank's node, and the ranks at its place on the other nodes.
    inside: Vec<usize>,
    across: Vec<usize>,
    communicators: OnceCell<(Communicator, Communicator)>,
}

impl Levels {
    /// The levels of a group, if it has any. It must span several nodes, with equally many members on each, one
    /// node after the other.
    pub(super) fn of(
        context: &Context,
        label: &str,
        inner: usize,
        members: &[usize],
        purpose: Purpose,
    ) -> Option<Levels> {
        let mapping = context.mapping();
        let route = mapping.route(members, inner);
        let (p, node) = (route.per_node, |rank: &usize| mapping.node_of(*rank));
        let in_runs = members
            .chunks(p)
            .all(|run| run.iter().all(|rank| node(rank) == node(&run[0])));
        if route.in_node() || p < 2 || members.len() != p * route.nodes || !in_runs {
            return None;
        }
        let own = members
            .iter()
            .position(|&rank| rank == context.world().rank())?;
        let inside = members[own / p * p..][..p].to_vec();
        let across = members.iter().skip(own % p).step_by(p).copied().collect();
        let communicators = OnceCell::new();
        Some(Levels {
            label: label.to_owned(),
            purpose,
            route,
            inside,
            across,
            communicators,
        })
    }

    /// Whether a collective of `elements` in `bytes` runs in levels. All members compute the same answer.
    pub(super) fn suit(
        &self,
        context: &Context,
        operation: Operation,
        elements: usize,
        bytes: usize,
    ) -> bool {
        let costed = match operation {
            Operation::AllReduce => Costed::AllReduce,
            Operation::AllGather => Costed::AllGather,
            Operation::ReduceScatter => Costed::ReduceScatter,
            Operation::Broadcast | Operation::AllToAll | Operation::Send | Operation::Recv => {
                return false;
            }
        };
        let faster = || match context.machine() {
            Some(machine) => machine.better(costed, bytes, self.route) == Algorithm::Hierarchical,
            None => bytes >= LARGE_BYTES,
        };
        let chosen = match context.settings().hierarchical {
            Hierarchical::Auto => faster(),
            Hierarchical::On => true,
            Hierarchical::Off => false,
        };
        chosen && elements >= self.inside.len()
    }

    // Created collectively on first use.
    fn communicators(&self, context: &Context) -> Result<&(Communicator, Communicator)> {
        if let Some(made) = self.communicators.get() {
            return Ok(made);
        }
        let inside = join(
            context,
            &format!("{} in node", self.label),
            &self.inside,
            self.purpose,
        )?;
        let across = join(
            context,
            &format!("{} across nodes", self.label),
            &self.across,
            self.purpose,
        )?;
        Ok(self.communicators.get_or_init(|| (inside, across)))
    }

    /// Reduce-scatter inside, all-reduce of the shard across, all-gather inside.
    pub(super) fn all_reduce(
        &self,
        context: &Context,
        stream: &Stream,
        tensor: &Tensor,
        op: ReduceOp,
    ) -> Result<()> {
        let (inside, across) = self.communicators(context)?;
        let flat = tensor.reshape(&[tensor.num_elements()])?;
        let share = |rank| shard_range(flat.num_elements(), inside.size(), rank);
        let counts = counts((0..inside.size()).map(|rank| share(rank).len()).collect());
        let own = flat.rows(share(inside.rank()).start, share(inside.rank()).len())?;
        inside.reduce_scatter(stream, &flat, &own, &counts, op)?;
        across.all_reduce(stream, &own, op)?;
        inside.all_gather(stream, &own, &flat, &counts)
    }

    /// The parts of aligned ranks across, then every node's block inside, each directly to its place.
    pub(super) fn all_gather(
        &self,
        context: &Context,
        stream: &Stream,
        part: &Tensor,
        whole: &Tensor,
        counts: &Counts,
    ) -> Result<()> {
        let (inside, across) = self.communicators(context)?;
        let blocks = Blocks::new(counts, inside, across.size());
        let aligned = context.buffer(part.dtype(), &[blocks.aligned.total(across.size())])?;
        across.all_gather(stream, &flat(part)?, &aligned, &blocks.aligned)?;
        let pieces = blocks.pieces(&aligned, &flat(whole)?)?;
        let parts = |(aligned, block, counts)| UnevenShards {
            send: aligned,
            recv: block,
            counts,
        };
        inside.all_gathers(
            stream,
            &pieces
                .iter()
                .map(|(a, b, c)| parts((a, b, c)))
                .collect::<Vec<_>>(),
        )
    }

    /// Every node's block reduced inside, then the aligned parts of the results across. Nodes have equally many ranks, so an average of
    /// averages is that of all.
    pub(super) fn reduce_scatter(
        &self,
        context: &Context,
        stream: &Stream,
        whole: &Tensor,
        part: &Tensor,
        counts: &Counts,
        op: ReduceOp,
    ) -> Result<()> {
        let (inside, across) = self.communicators(context)?;
        let blocks = Blocks::new(counts, inside, across.size());
        let aligned = context.buffer(part.dtype(), &[blocks.aligned.total(across.size())])?;
        let pieces = blocks.pieces(&aligned, &flat(whole)?)?;
        let parts = |(aligned, block, counts)| UnevenShards {
            send: block,
            recv: aligned,
            counts,
        };
        let all: Vec<_> = pieces.iter().map(|(a, b, c)| parts((a, b, c))).collect();
        inside.reduce_scatters(stream, &all, op)?;
        across.reduce_scatter(stream, &aligned, &flat(part)?, &blocks.aligned, op)
    }
}

// The full tensor by nodes, and the parts of aligned ranks.
struct Blocks {
    // For each node, the counts of its members' parts.
    inside: Vec<Counts>,
    // For each node, the part of the member at this rank's place.
    aligned: Counts,
    per_node: usize,
}

impl Blocks {
    fn new(counts_of_all: &Counts, inside: &Communicator, nodes: usize) -> Blocks {
        let per_node = inside.size();
        let block = |node: usize| {
            counts(
                (0..per_node)
                    .map(|l| counts_of_all.of(node * per_node + l))
                    .collect(),
            )
        };
        let aligned = (0..nodes)
            .map(|node| counts_of_all.of(node * per_node + inside.rank()))
            .collect();
        Blocks {
            inside: (0..nodes).map(block).collect(),
            aligned: counts(aligned),
            per_node,
        }
    }

    // For each node, its aligned part, its block of the full tensor, and the counts of that block.
    fn pieces(&self, aligned: &Tensor, whole: &Tensor) -> Result<Vec<(Tensor, Tensor, Counts)>> {
        let mut start = 0;
        let piece = |(node, counts): (usize, &Counts)| {
            let len = counts.total(self.per_node);
            let block = whole.rows(start, len)?;
            start += len;
            Ok((
                aligned.rows(self.aligned.before(node), self.aligned.of(node))?,
                block,
                counts.clone(),
            ))
        };
        self.inside.iter().enumerate().map(piece).collect()
    }
}

fn flat(tensor: &Tensor) -> Result<Tensor> {
    tensor.reshape(&[tensor.num_elements()])
}

// Vendors have fast collectives for equal parts.
fn counts(list: Vec<usize>) -> Counts {
    match list.iter().all(|count| *count == list[0]) {
        true => Counts::Even(list[0]),
        false => Counts::Uneven(list),
    }
}
