//! Context parallelism: ranks of Context hold parts of every sequence.
//!
//! A sequence is cut into twice as many chunks as there are ranks, and rank i holds chunk i from the front and chunk i
//! from the back: in causal attention a late token meets more keys than an early one, and so every rank meets equally
//! many. A rank stores its first chunk of every row, and then its second one, so that a chunk is one block of memory.
//! Source of the cut: arXiv:2407.21783, section 3.3.2 (Llama 3).

use super::Spread;
use crate::{Context, Purpose, counters::Subject};
use grid::{Axis, shard_range};
use hal::Counts;
use std::ops::Range;
use tensor::{Result, Stream, Tensor, ops};

// Where the chunks of one rank lie in a sequence of `tokens` tokens.
fn chunks_of(tokens: usize, ranks: usize, rank: usize) -> Vec<Range<usize>> {
    let all = 0..tokens;
    match ranks {
        1 => vec![all],
        _ => [rank, 2 * ranks - 1 - rank]
            .map(|chunk| shard_range(tokens, 2 * ranks, chunk))
            .into(),
    }
}

/// Ranks that store their tokens one after another, of `of` ranks over which sequences are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holders {
    pub(crate) of: usize,
    pub(crate) ranks: Range<usize>,
}

impl Holders {
    /// One of `of` ranks.
    pub(crate) fn one(of: usize, rank: usize) -> Holders {
        Holders {
            of,
            ranks: rank..rank + 1,
        }
    }

    /// All ranks of Context.
    pub(crate) fn all(context: &Context) -> Holders {
        let of = context.degree(Axis::Context);
        Holders { of, ranks: 0..of }
    }

    /// This rank of Context.
    pub(crate) fn own(context: &Context) -> Holders {
        Holders::one(context.degree(Axis::Context), context.index(Axis::Context))
    }

    /// A single rank that stores all tokens in their order.
    pub(crate) fn whole() -> Holders {
        Holders::one(1, 0)
    }
}

impl Spread {
    /// What these ranks store: for each chunk its vectors, of all rows, and its tokens.
    pub(crate) fn stored(&self, holders: &Holders) -> Vec<(Range<usize>, Range<usize>)> {
        let tokens = self.leading[1];
        let of_token = self.leading[0] * self.vectors_of_token();
        let mut start = 0;
        let ranks = holders.ranks.clone();
        let chunks = ranks.flat_map(|rank| chunks_of(tokens, holders.of, rank));
        let placed = chunks.map(|chunk| {
            let vectors = start..start + of_token * chunk.len();
            start = vectors.end;
            (vectors, chunk)
        });
        placed.collect()
    }

    /// What this rank stores.
    pub(crate) fn own_chunks(&self, context: &Context) -> Vec<(Range<usize>, Range<usize>)> {
        self.stored(&Holders::own(context))
    }

    /// Number of vectors that these ranks store.
    pub(crate) fn vectors_of(&self, holders: &Holders) -> usize {
        let stored = self.stored(holders);
        stored.last().map_or(0, |(vectors, _)| vectors.end)
    }

    /// Vectors of each token: 1 unless there are dims between tokens and features.
    pub(super) fn vectors_of_token(&self) -> usize {
        self.leading[2..].iter().product()
    }

    fn counts_of_tokens(&self, context: &Context, columns: usize) -> Counts {
        let Holders { of, ranks } = Holders::all(context);
        let counts = ranks.map(|rank| self.vectors_of(&Holders::one(of, rank)) * columns);
        let counts: Vec<usize> = counts.collect();
        match counts.iter().all(|count| *count == counts[0]) {
            true => Counts::Even(counts[0]),
            false => Counts::Uneven(counts),
        }
    }

    /// The vectors of all tokens in their order, from the parts of all ranks of Context.
    ///
    /// # Errors
    /// Those of the collective.
    pub(crate) fn gather_tokens(
        &self,
        context: &Context,
        (subject, stream): (Subject, &Stream),
        part: &Tensor,
    ) -> Result<Tensor> {
        let columns = part.columns();
        let group = context.group(Axis::Context, Purpose::Main)?;
        let Some(group) = group.filter(|_| self.share.tokens) else {
            return part.reshape(&self.whole_shape(columns));
        };
        let vectors: usize = self.leading.iter().product();
        let parts = context.buffer(part.dtype(), &[vectors, columns])?;
        let counts = self.counts_of_tokens(context, columns);
        group.all_gather(context, subject, stream, part, &parts, &counts)?;
        let whole = context.buffer(part.dtype(), &self.whole_shape(columns))?;
        self.join(&Holders::all(context), &parts, &Holders::whole(), &whole)?;
        Ok(whole)
    }

    /// This rank's tokens of the sum of `whole`, of all tokens, over Context.
    ///
    /// # Errors
    /// Those of the collective.
    pub(crate) fn sum_tokens(
        &self,
        context: &Context,
        (subject, stream): (Subject, &Stream),
        whole: &Tensor,
    ) -> Result<Tensor> {
        let (columns, dtype) = (whole.columns(), whole.dtype());
        let held = self.vectors(context);
        let Some(group) = context.group(Axis::Context, Purpose::Main)? else {
            return whole.reshape(&[held, columns]);
        };
        let vectors: usize = self.leading.iter().product();
        let parts = context.buffer(dtype, &[vectors, columns])?;
        self.part(&Holders::whole(), whole, &Holders::all(context), &parts)?;
        let part = context.buffer(dtype, &[held, columns])?;
        let counts = self.counts_of_tokens(context, columns);
        group.reduce_scatter(context, subject, stream, &parts, &part, &counts)?;
        Ok(part)
    }

    /// A copy of this rank's tokens of `whole`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub(crate) fn cut_tokens(&self, context: &Context, whole: &Tensor) -> Result<Tensor> {
        self.cut_for(&Holders::own(context), whole)
    }

    /// A copy of the tokens of `whole` that these ranks store.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub(crate) fn cut_for(&self, holders: &Holders, whole: &Tensor) -> Result<Tensor> {
        let columns = whole.num_elements() / self.leading.iter().product::<usize>().max(1);
        let shape = [self.vectors_of(holders), columns];
        let part = Tensor::empty(whole.device(), whole.dtype(), &shape)?;
        self.part(&Holders::whole(), whole, holders, &part)?;
        Ok(part)
    }

    /// Copies what the holders of `parts` store to where the holders of `whole` store it. The chunks of the latter consist of
    /// chunks of the former.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for another number of elements.
    pub(super) fn join(
        &self,
        of_parts: &Holders,
        parts: &Tensor,
        of_whole: &Holders,
        whole: &Tensor,
    ) -> Result<()> {
        self.each_chunk((of_parts, parts), (of_whole, whole), ops::set_columns)
    }

    /// Copies the opposite way.
    ///
    /// # Errors
    /// As [`join`](Spread::join).
    pub(super) fn part(
        &self,
        of_whole: &Holders,
        whole: &Tensor,
        of_parts: &Holders,
        parts: &Tensor,
    ) -> Result<()> {
        self.each_chunk(
            (of_parts, parts),
            (of_whole, whole),
            |larger, first, chunk| ops::columns_into(larger, first, chunk.columns(), chunk),
        )
    }

    // Passes every chunk of `parts`: the chunk of `whole` that it is a part of, where it begins in that, and the chunk itself.
    // Both have a row of the batch in each row.
    fn each_chunk(
        &self,
        (of_parts, parts): (&Holders, &Tensor),
        (of_whole, whole): (&Holders, &Tensor),
        copy: impl Fn(&Tensor, usize, &Tensor) -> Result<()>,
    ) -> Result<()> {
        let columns = parts.columns();
        let vectors = self.vectors_of(of_whole);
        let whole = whole.reshape(&[vectors, columns])?;
        let by_row = |all: &Tensor, (vectors, tokens): &(Range<usize>, Range<usize>)| {
            let chunk = all.rows(vectors.start, vectors.len())?;
            let of_row = tokens.len() * self.vectors_of_token() * columns;
            chunk.reshape(&[self.leading[0], of_row])
        };
        let larger = self.stored(of_whole);
        for chunk in self.stored(of_parts) {
            let (_, tokens) = &chunk;
            for around in &larger {
                if around.1.contains(&tokens.start) {
                    let first = (tokens.start - around.1.start) * self.vectors_of_token() * columns;
                    copy(&by_row(&whole, around)?, first, &by_row(parts, &chunk)?)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor::ops::attention::AttentionShape;

    #[test]
    fn every_token_is_on_one_rank() {
        for (tokens, ranks) in [(7, 1), (7, 2), (7, 3), (16, 8), (100, 6)] {
            let all = (0..ranks).flat_map(|rank| chunks_of(tokens, ranks, rank));
            let mut all: Vec<usize> = all.flatten().collect();
            all.sort_unstable();
            assert_eq!(all, (0..tokens).collect::<Vec<_>>(), "{tokens} on {ranks}");
        }
    }

    // So neighbours that join their tokens are a cut over fewer ranks.
    #[test]
    fn chunks_of_neighbours_are_chunks_of_fewer_ranks() {
        for (ranks, neighbours) in [(2, 2), (4, 2), (8, 2), (8, 4), (6, 3)] {
            for larger in 0..ranks / neighbours {
                let own = larger * neighbours..(larger + 1) * neighbours;
                let parts = own.flat_map(|rank| chunks_of(48, ranks, rank));
                let mut parts: Vec<usize> = parts.flatten().collect();
                parts.sort_unstable();
                let whole = chunks_of(48, ranks / neighbours, larger);
                assert_eq!(parts, whole.into_iter().flatten().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn causal_work_is_equal() {
        let pairs = |tokens: usize, ranks: usize, rank: usize| -> f64 {
            let of_chunk = |chunk: Range<usize>| AttentionShape {
                queries: chunk.len(),
                first_query: chunk.start,
                ..AttentionShape::causal(1, tokens, [1, 1, 1])
            };
            let chunks = chunks_of(tokens, ranks, rank).into_iter();
            chunks.map(|chunk| of_chunk(chunk).pairs()).sum()
        };
        for ranks in [2, 4, 8] {
            let share = pairs(8192, 1, 0) / ranks as f64;
            for rank in 0..ranks {
                assert_eq!(pairs(8192, ranks, rank), share, "rank {rank} of {ranks}");
                let uneven = pairs(8179, ranks, rank) * ranks as f64 / pairs(8179, 1, 0);
                assert!(
                    (uneven - 1.0).abs() < 0.01,
                    "{uneven} on rank {rank} of {ranks}"
                );
            }
        }
    }
}
