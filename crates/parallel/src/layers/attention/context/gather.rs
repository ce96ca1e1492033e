//! Keys and values of all tokens are gathered; each rank attends with its own queries.
//!
//! Source: arXiv:2407.21783, section 3.3.2 (Llama 3): few keys and values serve many query heads, so they are small, and
//! masks of any kind stay simple.

use crate::{DTensor, counters::Subject, layers::spread::Spread};
use std::ops::Range;
use tensor::{
    Result, Tensor, Var,
    ops::{
        self,
        attention::{AttentionShape, Saved},
    },
};

/// # Errors
/// Those of the collectives.
pub(super) fn attention(
    (shape, spread): (AttentionShape, &Spread),
    [q, k, v]: [&DTensor; 3],
    documents: Option<&Tensor>,
) -> Result<Var> {
    let documents = documents.map(|starts| spread.cut_tokens(q.context(), starts));
    let documents = documents.transpose()?;
    let (context, spread) = (q.context().clone(), spread.clone());
    let gather = move |held: &Tensor, spread: &Spread| {
        let compute = context.device().compute();
        spread.gather_tokens(&context, (Subject::Attention, &compute), held)
    };
    let pieces = spread
        .own_chunks(q.context())
        .into_iter()
        .map(|(held, tokens)| {
            let of_chunk = AttentionShape {
                queries: tokens.len(),
                first_query: tokens.start,
                ..shape
            };
            (held, of_chunk)
        });
    let pieces: Vec<_> = pieces.collect();
    let [keys, values] = [gather(k.held(), &spread)?, gather(v.held(), &spread)?];
    let queries = q.held().clone();
    let out = Tensor::empty(queries.device(), queries.dtype(), queries.shape())?;
    let mut sums = Vec::new();
    for (held, shape) in &pieces {
        let own = queries.rows(held.start, held.len())?;
        let starts = rows_of(&documents, held)?;
        let (of_chunk, log_sum_exp) =
            ops::attention(*shape, &own, &keys, &values, starts.as_ref())?;
        ops::copy(&of_chunk, &out.rows(held.start, held.len())?)?;
        sums.push(log_sum_exp);
    }
    // A recomputation is used at once; otherwise a rank keeps its own keys and values, and gathers them again.
    let is_recomputed = q.pass().is_backward();
    let kept = match is_recomputed {
        true => [keys, values],
        false => [k.held().clone(), v.held().clone()],
    };
    let (context, of_out) = (q.context().clone(), out.clone());
    let inputs = [q, k, v].map(DTensor::held_var);
    Ok(Var::record_one(
        "attention",
        &inputs,
        out,
        false,
        move |d_out| {
            let [keys, values] = match is_recomputed {
                true => kept,
                false => [gather(&kept[0], &spread)?, gather(&kept[1], &spread)?],
            };
            let d_q = Tensor::empty(queries.device(), queries.dtype(), queries.shape())?;
            let mut sum: Option<[Tensor; 2]> = None;
            for ((held, shape), log_sum_exp) in pieces.into_iter().zip(sums) {
                let of_chunk = |all: &Tensor| all.rows(held.start, held.len());
                let saved = Saved {
                    q: of_chunk(&queries)?,
                    k: keys.clone(),
                    v: values.clone(),
                    out: of_chunk(&of_out)?,
                    log_sum_exp,
                    documents: rows_of(&documents, &held)?,
                };
                let d_out = of_chunk(&d_out)?;
                let [of_queries, d_k, d_v] = ops::attention_backward(shape, &saved, &d_out)?;
                ops::copy(&of_queries, &of_chunk(&d_q)?)?;
                match &sum {
                    None => sum = Some([d_k, d_v]),
                    Some([keys, values]) => {
                        ops::axpby(1.0, &d_k, 1.0, keys)?;
                        ops::axpby(1.0, &d_v, 1.0, values)?;
                    }
                }
            }
            let mut gradients = vec![Some(d_q)];
            let compute = context.device().compute();
            for whole in sum.into_iter().flatten() {
                let place = (Subject::Attention, &compute);
                gradients.push(Some(spread.sum_tokens(&context, place, &whole)?));
            }
            Ok(gradients)
        },
    ))
}

// The documents of a chunk, of all its rows.
fn rows_of(documents: &Option<Tensor>, held: &Range<usize>) -> Result<Option<Tensor>> {
    let starts = documents.as_ref();
    starts
        .map(|starts| starts.rows(held.start, held.len()))
        .transpose()
}
