//! Ranks of Context exchange tokens for heads: each attends with all tokens of some heads.
//!
//! Source: arXiv:2309.14509 (DeepSpeed-Ulysses). An all-to-all of queries, keys and values before, and of the result after,
//! moves 1/C of them on C ranks; gathered keys and values are moved whole. Sequences that do not divide into equal chunks, as
//! those of generation, have their keys gathered.

use super::{super::local, gather};
use crate::{Context, DTensor, counters::Subject, layers::spread::Spread};
use grid::Axis;
use tensor::{Error, Result, Tensor, Var, ops::attention::AttentionShape};

/// # Errors
/// [`Error::Invalid`] if the ranks of Context do not divide the heads and the keys' heads of a rank of X; those of the
/// collectives.
pub(super) fn attention(
    name: &str,
    (shape, spread): (AttentionShape, &Spread),
    [q, k, v]: [&DTensor; 3],
) -> Result<Var> {
    let context = q.context();
    let ranks = context.degree(Axis::Context);
    let divides = |size: usize| size.is_multiple_of(ranks);
    if !divides(shape.heads) || !divides(shape.kv_heads) {
        let found = format!(
            "{} heads and {} of keys on a rank of x",
            shape.heads, shape.kv_heads
        );
        let needed = format!(
            "multiples of the {ranks} ranks of context, to exchange heads; context_attention = \"gather\" needs none"
        );
        return Err(Error::invalid(name, found, needed));
    }
    // All-to-alls have equal parts.
    if !shape.queries.is_multiple_of(2 * ranks) {
        return gather::attention((shape, spread), [q, k, v]);
    }
    let heads = shape.heads / ranks;
    let of_heads = AttentionShape {
        heads,
        kv_heads: shape.kv_heads / ranks,
        dropout: shape.dropout.map(|mut dropout| {
            dropout.first_head += context.index(Axis::Context) * heads;
            dropout
        }),
        ..shape
    };
    let to_heads = |x: &DTensor| {
        let to = Spread::tokens_to_heads;
        exchanged(context, spread, x.held_var(), [to, Spread::heads_to_tokens])
    };
    let [q, k, v] = [to_heads(q)?, to_heads(k)?, to_heads(v)?];
    let out = local(of_heads, [&q, &k, &v])?;
    let back = [Spread::heads_to_tokens, Spread::tokens_to_heads];
    exchanged(context, spread, &out, back)
}

type Exchange = fn(&Spread, &Context, Subject, &Tensor) -> Result<Tensor>;

fn exchanged(
    context: &Context,
    spread: &Spread,
    x: &Var,
    [there, back]: [Exchange; 2],
) -> Result<Var> {
    let out = there(spread, context, Subject::Attention, x.tensor())?;
    let (context, spread) = (context.clone(), spread.clone());
    Ok(Var::record_one(
        "exchange heads",
        &[x],
        out,
        false,
        move |d_out| {
            Ok(vec![Some(back(
                &spread,
                &context,
                Subject::Attention,
                &d_out,
            )?)])
        },
    ))
}
