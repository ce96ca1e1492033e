//! Keys and values pass from rank to rank, and each rank attends to those of one rank at a time.
//!
//! After as many blocks as ranks, every query has met every key. The results of blocks are joined by their log-sum-exps,
//! and the gradients of a block's keys travel behind it, growing at each rank, until they are back at its owner. A pass
//! from rank to rank runs beside the attention on the block that is here. As sequences are cut from the front and the back,
//! every rank computes half of each block of others.
//! Source: arXiv:2310.01889 (Ring Attention).

use crate::{
    Context, Group, Purpose,
    counters::Subject,
    lane::Lane,
    layers::spread::{Holders, Spread},
};
use grid::Axis;
use std::{ops::Range, rc::Rc};
use tensor::{
    Error, Result, Stream, Tensor, Var,
    ops::{
        self,
        attention::{AttentionShape, Saved},
    },
};

/// Attention of `inputs` (queries, keys and values), of which each `exchange` neighbours have exchanged tokens for heads.
///
/// # Errors
/// Those of the messages.
pub(super) fn attention(
    context: &Context,
    (shape, spread): (AttentionShape, &Spread),
    exchange: usize,
    inputs: [&Var; 3],
    documents: Option<&Tensor>,
) -> Result<Var> {
    let ring = Ring::new(context, (shape, spread), exchange, documents)?;
    let [queries, keys, values] = inputs.map(Var::tensor);
    let (queries, own) = (queries.clone(), pair(keys, values)?);
    let (out, sums) = ring.forward(&queries, &own)?;
    let of_out = out.clone();
    Ok(Var::record_one(
        "attention",
        &inputs,
        out,
        false,
        move |d_out| {
            let gradients = ring.backward((&queries, &own), (&of_out, &sums), &d_out)?;
            Ok(gradients.map(Some).into())
        },
    ))
}

// A rank's keys and its values, as one message.
fn pair(keys: &Tensor, values: &Tensor) -> Result<Tensor> {
    let vectors = keys.num_rows();
    let shape = [2 * vectors, keys.columns()];
    let pair = Tensor::empty(keys.device(), keys.dtype(), &shape)?;
    ops::copy(keys, &pair.rows(0, vectors)?)?;
    ops::copy(values, &pair.rows(vectors, vectors)?)?;
    Ok(pair)
}

struct Ring {
    context: Context,
    spread: Spread,
    // Of complete sequences.
    shape: AttentionShape,
    // The ranks of the ring, and which one this is. A sequence is cut over as many.
    size: usize,
    rank: usize,
    // With one rank, nothing passes.
    group: Option<(Rc<Group>, Stream)>,
    // Where the documents of this rank's queries start.
    documents: Option<Tensor>,
}

impl Ring {
    fn new(
        context: &Context,
        (shape, spread): (AttentionShape, &Spread),
        exchange: usize,
        documents: Option<&Tensor>,
    ) -> Result<Ring> {
        let (ranks, own) = (context.degree(Axis::Context), context.index(Axis::Context));
        let group = match exchange {
            1 => context.group(Axis::Context, Purpose::Keys)?,
            _ => {
                let members = context.members(&[Axis::Context]);
                let first = own % exchange;
                let members: Vec<usize> =
                    members.into_iter().skip(first).step_by(exchange).collect();
                let label = format!("every {exchange} on context");
                Some(context.group_of(label, Axis::Context, &members, Purpose::Keys)?)
            }
        };
        let with_stream = |group| Ok::<_, Error>((group, context.stream(Lane::Keys)?));
        let (size, rank) = (ranks / exchange, own / exchange);
        let own = Holders::one(size, rank);
        let documents = documents.map(|starts| spread.cut_for(&own, starts));
        Ok(Ring {
            context: context.clone(),
            spread: spread.clone(),
            shape,
            size,
            rank,
            group: group.map(with_stream).transpose()?,
            documents: documents.transpose()?,
        })
    }

    // What the rank stores whose keys are here after so many passes.
    fn source(&self, passes: usize) -> Holders {
        let rank = (self.rank + self.size - passes % self.size) % self.size;
        Holders::one(self.size, rank)
    }

    // Passes on what belongs to the source of `passes` passes, and receives the same of the next source.
    fn pass(&self, held: &Tensor, passes: usize) -> Result<Tensor> {
        let Some((group, stream)) = &self.group else {
            return Ok(held.clone());
        };
        let shape = [
            2 * self.spread.vectors_of(&self.source(passes + 1)),
            held.columns(),
        ];
        let next = self.context.buffer(held.dtype(), &shape)?;
        group.pass_on(&self.context, Subject::Attention, stream, [held, &next])?;
        Ok(next)
    }

    // The keys and values of the next source, if there is another one.
    fn next(&self, block: &Tensor, passes: usize) -> Result<Tensor> {
        match passes + 1 < self.size {
            true => self.pass(block, passes),
            false => Ok(block.clone()),
        }
    }

    // Which of this rank's queries meet which keys of `source`.
    fn meetings(&self, source: &Holders) -> Vec<Meeting> {
        let own = self.spread.stored(&Holders::one(self.size, self.rank));
        let stored = self.spread.stored(source);
        let mut meetings = Vec::new();
        for (chunk, (queries, tokens)) in own.into_iter().enumerate() {
            for (keys, of_keys) in &stored {
                // Chunks are equal, or one is before the other.
                if of_keys.start > tokens.start {
                    continue;
                }
                let shape = self.of_chunks(&tokens, of_keys);
                // Else they are before the windows of all queries.
                if shape.pairs() > 0.0 {
                    meetings.push(Meeting {
                        chunk,
                        queries: queries.clone(),
                        keys: keys.clone(),
                        shape,
                    });
                }
            }
        }
        meetings
    }

    fn of_chunks(&self, queries: &Range<usize>, keys: &Range<usize>) -> AttentionShape {
        AttentionShape {
            queries: queries.len(),
            keys: keys.len(),
            first_query: queries.start - keys.start,
            first_key: keys.start,
            ..self.shape
        }
    }

    // The result, and the log-sum-exps of each of this rank's chunks.
    fn forward(&self, queries: &Tensor, own: &Tensor) -> Result<(Tensor, Vec<Tensor>)> {
        let dtype = queries.dtype();
        let sum = Tensor::empty(queries.device(), dtype.accumulator(), queries.shape())?;
        let mut sums: Vec<Tensor> = Vec::new();
        let mut block = own.clone();
        for passes in 0..self.size {
            let next = self.next(&block, passes)?;
            for meeting in self.meetings(&self.source(passes)) {
                let [k, v] = meeting.of_pair(&block)?;
                let q = meeting.of_queries(queries)?;
                let starts = meeting.starts(self.documents.as_ref())?;
                let (out, log_sum_exp) =
                    ops::attention(meeting.shape, &q, &k, &v, starts.as_ref())?;
                let (before, of_block) = (meeting.of_queries(&sum)?, (&out, &log_sum_exp));
                // Every chunk of queries meets keys of its own rank first.
                match sums.get_mut(meeting.chunk) {
                    None => {
                        ops::cast_into(&out, &before)?;
                        sums.push(log_sum_exp);
                    }
                    Some(known) => {
                        *known = ops::attention_join(meeting.shape, (&before, known), of_block)?;
                    }
                }
            }
            block = next;
        }
        Ok((ops::cast(&sum, dtype)?, sums))
    }

    // The gradients of queries, keys and values.
    fn backward(
        &self,
        (queries, own): (&Tensor, &Tensor),
        (out, sums): (&Tensor, &[Tensor]),
        d_out: &Tensor,
    ) -> Result<[Tensor; 3]> {
        let (device, dtype) = (queries.device(), queries.dtype());
        let zeros = |shape: &[usize]| Tensor::zeros(device, dtype.accumulator(), shape);
        let d_q = zeros(queries.shape())?;
        let mut block = own.clone();
        // The gradients of the block's keys and values, from the ranks that had it before.
        let mut of_block = zeros(own.shape())?;
        for passes in 0..self.size {
            let next = self.next(&block, passes)?;
            let mut addends = Vec::new();
            for meeting in self.meetings(&self.source(passes)) {
                let [k, v] = meeting.of_pair(&block)?;
                let saved = Saved {
                    q: meeting.of_queries(queries)?,
                    k,
                    v,
                    out: meeting.of_queries(out)?,
                    log_sum_exp: sums[meeting.chunk].clone(),
                    documents: meeting.starts(self.documents.as_ref())?,
                };
                let d_out = meeting.of_queries(d_out)?;
                let [to_q, to_k, to_v] = ops::attention_backward(meeting.shape, &saved, &d_out)?;
                ops::axpby(1.0, &to_q, 1.0, &meeting.of_queries(&d_q)?)?;
                addends.push((meeting, [to_k, to_v]));
            }
            // Only now, because until here the gradients may still be on their way.
            for (meeting, addends) in addends {
                for (addend, sum) in addends.iter().zip(meeting.of_pair(&of_block)?) {
                    ops::axpby(1.0, addend, 1.0, &sum)?;
                }
            }
            of_block = self.pass(&of_block, passes)?;
            block = next;
        }
        let vectors = of_block.num_rows() / 2;
        let part = |first| ops::cast(&of_block.rows(first, vectors)?, dtype);
        Ok([ops::cast(&d_q, dtype)?, part(0)?, part(vectors)?])
    }
}

/// This rank's queries of one chunk, and the keys of one chunk that they meet.
struct Meeting {
    chunk: usize,
    // Vectors, in what their ranks hold.
    queries: Range<usize>,
    keys: Range<usize>,
    shape: AttentionShape,
}

impl Meeting {
    fn of_queries(&self, all: &Tensor) -> Result<Tensor> {
        all.rows(self.queries.start, self.queries.len())
    }

    fn starts(&self, documents: Option<&Tensor>) -> Result<Option<Tensor>> {
        documents.map(|all| self.of_queries(all)).transpose()
    }

    // The keys and the values.
    fn of_pair(&self, pair: &Tensor) -> Result<[Tensor; 2]> {
        let of = |first: usize| pair.rows(first + self.keys.start, self.keys.len());
        Ok([of(0)?, of(pair.num_rows() / 2)?])
    }
}
