//! The exchange of nodes between ranks.

use super::{Held, Node, add, complete, join};
use crate::{Context, Group, counters::Subject};
use grid::shard_range;
use hal::Counts;
use tensor::{DType, MemoryKind, Result, Stream, Tensor, ops};

/// What an exchange belongs to, and the stream on which it runs.
#[derive(Clone, Copy)]
pub(crate) struct Wire<'a> {
    pub(crate) context: &'a Context,
    pub(crate) group: &'a Group,
    pub(crate) subject: Subject,
    pub(crate) stream: &'a Stream,
}

impl Wire<'_> {
    /// Rank i receives the i-th part of the nodes of all ranks, joined as far as they complete larger ones.
    ///
    /// `own` are this rank's nodes, as `held` lists them, each of `counts.total` elements of `dtype`, an accumulator type.
    ///
    /// # Cost
    /// An all-to-all of as many nodes as the rank with the most has; without copies if each rank holds one, of equal parts.
    /// # Errors
    /// As [`Group::all_to_all`].
    pub(crate) fn join(
        self,
        own: &[Tensor],
        dtype: DType,
        held: &Held,
        counts: &Counts,
    ) -> Result<Vec<Node<Tensor>>> {
        let (size, most, context) = (self.group.size(), held.most(), self.context);
        let longest = (0..size).map(|rank| counts.of(rank)).max().unwrap_or(0);
        let is_direct = held.are_single() && (0..size).all(|rank| counts.of(rank) == longest);
        let send = match own {
            [node] if is_direct => flat(node)?,
            _ => {
                let device = context.device();
                let staged = device.allocating(MemoryKind::Buffers, || {
                    Tensor::zeros(device, dtype, &[size * most * longest])
                })?;
                for (place, node) in own.iter().enumerate() {
                    let node = flat(node)?;
                    for rank in 0..size {
                        let (start, len) = (counts.before(rank), counts.of(rank));
                        let to = staged.rows((rank * most + place) * longest, len)?;
                        ops::copy_on(self.stream, &node.rows(start, len)?, &to)?;
                    }
                }
                staged
            }
        };
        let received = context.buffer(dtype, &[size * most * longest])?;
        self.group
            .all_to_all(context, self.subject, self.stream, &send, &received)?;
        let len = counts.of(self.group.rank());
        let mut joined = Vec::new();
        for (node, rank, place) in held.in_order() {
            let value = received.rows((rank * most + place) * longest, len)?;
            join(&mut joined, (node, value), |left, right| {
                add(self.stream, left, right)
            })?;
        }
        Ok(joined)
    }

    /// This rank's part of the complete sum, whose nodes the ranks hold together.
    ///
    /// # Errors
    /// As [`join`](Wire::join).
    pub(crate) fn sum(
        self,
        own: &[Tensor],
        dtype: DType,
        held: &Held,
        counts: &Counts,
    ) -> Result<Tensor> {
        let nodes = self.join(own, dtype, held, counts)?;
        let sum = complete(nodes, |left, right| add(self.stream, left, right))?;
        match sum {
            Some(sum) => Ok(sum),
            None => Tensor::zeros(
                self.context.device(),
                dtype,
                &[counts.of(self.group.rank())],
            ),
        }
    }

    /// Every rank receives all parts.
    ///
    /// # Errors
    /// As [`Group::all_gather`].
    pub(crate) fn gather(self, part: &Tensor, counts: &Counts, whole: &Tensor) -> Result<()> {
        let whole = flat(whole)?;
        self.group.all_gather(
            self.context,
            self.subject,
            self.stream,
            part,
            &whole,
            counts,
        )
    }

    /// About equal parts of `len` elements.
    pub(crate) fn parts(self, len: usize) -> Counts {
        let size = self.group.size();
        match len % size {
            0 => Counts::Even(len / size),
            _ => Counts::Uneven(
                (0..size)
                    .map(|rank| shard_range(len, size, rank).len())
                    .collect(),
            ),
        }
    }
}

fn flat(tensor: &Tensor) -> Result<Tensor> {
    tensor.reshape(&[tensor.num_elements()])
}
