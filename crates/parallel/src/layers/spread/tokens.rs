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

impl Spread {
    /// What these ranks of Context store, one rank after the other: for each chunk its vectors, of all rows, and its tokens.
    pub(crate) fn stored(
        &self,
        context: &Context,
        ranks: Range<usize>,
    ) -> Vec<(Range<usize>, Range<usize>)> {
        let (tokens, degree) = (self.leading[1], context.degree(Axis::Context));
        let of_token = self.leading[0] * self.vectors_of_token();
        let mut start = 0;
        let chunks = ranks.flat_map(|rank| chunks_of(tokens, degree, rank));
        let placed = chunks.map(|chunk| {
            let vectors = start..start + of_token * chunk.len();
            start = vectors.end;
            (vectors, chunk)
        });
        placed.collect()
    }

    /// What this rank stores.
    pub(crate) fn own_chunks(&self, context: &Context) -> Vec<(Range<usize>, Range<usize>)> {
        let own = context.index(Axis::Context);
        self.stored(context, own..own + 1)
    }

    /// Vectors of a rank's tokens.
    pub(super) fn vectors_of(&self, context: &Context, rank: usize) -> usize {
        let stored = self.stored(context, rank..rank + 1);
        stored.last().map_or(0, |(vectors, _)| vectors.end)
    }

    /// Vectors of each token: 1 unless there are dims between tokens and features.
    pub(super) fn vectors_of_token(&self) -> usize {
        self.leading[2..].iter().product()
    }

    fn counts_of_tokens(&self, context: &Context, columns: usize) -> Counts {
        let ranks = 0..context.degree(Axis::Context);
        let counts = ranks.map(|rank| self.vectors_of(context, rank) * columns);
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
        self.in_order(context, &parts)
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
        self.store(context, 0..group.size(), whole, &parts)?;
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
        let columns = whole.num_elements() / self.leading.iter().product::<usize>().max(1);
        let shape = [self.vectors(context), columns];
        let part = Tensor::empty(whole.device(), whole.dtype(), &shape)?;
        let own = context.index(Axis::Context);
        self.store(context, own..own + 1, whole, &part)?;
        Ok(part)
    }

    /// All tokens in their order, from what all ranks store.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub(super) fn in_order(&self, context: &Context, parts: &Tensor) -> Result<Tensor> {
        let whole = context.buffer(parts.dtype(), &self.whole_shape(parts.columns()))?;
        let (all, ranks) = (self.by_row(&whole)?, 0..context.degree(Axis::Context));
        self.each_chunk(context, ranks, parts, |first, chunk| {
            ops::set_columns(&all, first, chunk)
        })?;
        Ok(whole)
    }

    /// Copies from all tokens what these ranks store to `parts`.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for another number of elements.
    pub(super) fn store(
        &self,
        context: &Context,
        ranks: Range<usize>,
        whole: &Tensor,
        parts: &Tensor,
    ) -> Result<()> {
        let all = self.by_row(whole)?;
        self.each_chunk(context, ranks, parts, |first, chunk| {
            ops::columns_into(&all, first, chunk.columns(), chunk)
        })
    }

    // A matrix with a row of the batch in each row.
    fn by_row(&self, whole: &Tensor) -> Result<Tensor> {
        let rows = self.leading[0];
        whole.reshape(&[rows, whole.num_elements() / rows.max(1)])
    }

    // Passes every chunk of `parts`, which holds what these ranks store: where it begins in a row's elements, and the chunk,
    // with a row of the batch in each row.
    fn each_chunk(
        &self,
        context: &Context,
        ranks: Range<usize>,
        parts: &Tensor,
        mut copy: impl FnMut(usize, &Tensor) -> Result<()>,
    ) -> Result<()> {
        let (rows, of_token) = (self.leading[0], self.vectors_of_token() * parts.columns());
        for (vectors, tokens) in self.stored(context, ranks) {
            let chunk = parts.rows(vectors.start, vectors.len())?;
            let chunk = chunk.reshape(&[rows, tokens.len() * of_token])?;
            copy(tokens.start * of_token, &chunk)?;
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
