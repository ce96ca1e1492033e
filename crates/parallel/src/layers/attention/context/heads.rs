//! Ranks of Context exchange tokens for heads: each attends with the tokens of all that exchange, of some heads.
//!
//! Source: arXiv:2309.14509 (DeepSpeed-Ulysses). An all-to-all of queries, keys and values before, and of the result after,
//! moves 1/C of them on C ranks; gathered keys and values are moved whole. If all ranks exchange, each then has whole
//! sequences. If groups of neighbours do, a ring leads through the groups (arXiv:2405.07719, USP), and demands fewer heads.

use super::{super::local, ring};
use crate::{
    Context,
    layers::spread::{Neighbours, Spread},
};
use grid::Axis;
use tensor::{Error, Result, Tensor, Var, ops::attention::AttentionShape};

/// Attention of ranks of which each `exchange` neighbours exchange tokens for heads. Chunks are equal.
///
/// # Errors
/// Those of the collectives.
pub(super) fn attention(
    context: &Context,
    (shape, spread): (AttentionShape, &Spread),
    exchange: usize,
    inputs: [&Var; 3],
    documents: Option<&Tensor>,
) -> Result<Var> {
    let Some(neighbours) = Neighbours::of(context, exchange)? else {
        return ring::attention(context, (shape, spread), exchange, inputs, documents);
    };
    let heads = shape.heads / exchange;
    let of_heads = AttentionShape {
        heads,
        kv_heads: shape.kv_heads / exchange,
        dropout: shape.dropout.map(|mut dropout| {
            dropout.first_head += context.index(Axis::Context) % exchange * heads;
            dropout
        }),
        ..shape
    };
    let exchanged = |x: &Var, moves| exchanged(context, (spread, &neighbours), x, moves);
    let to_heads = |x: &Var| exchanged(x, [Spread::tokens_to_heads, Spread::heads_to_tokens]);
    let [q, k, v] = inputs.map(to_heads);
    let (q, k, v) = (q?, k?, v?);
    let inputs = [&q, &k, &v];
    let out = match context.degree(Axis::Context) == exchange {
        true => local(of_heads, inputs, documents)?,
        false => ring::attention(context, (of_heads, spread), exchange, inputs, documents)?,
    };
    exchanged(&out, [Spread::heads_to_tokens, Spread::tokens_to_heads])
}

/// # Errors
/// [`Error::Invalid`] if `exchange` does not divide the ranks of Context, and the heads and the keys' heads of a rank of X.
pub(super) fn check(
    name: &str,
    context: &Context,
    shape: &AttentionShape,
    exchange: usize,
) -> Result<()> {
    let ranks = context.degree(Axis::Context);
    if !ranks.is_multiple_of(exchange) {
        let needed = format!("a multiple of the {exchange} that exchange heads");
        return Err(Error::invalid(
            name,
            format!("{ranks} ranks of context"),
            needed,
        ));
    }
    let divides = |size: usize| size.is_multiple_of(exchange);
    if divides(shape.heads) && divides(shape.kv_heads) {
        return Ok(());
    }
    let found = format!(
        "{} heads and {} of keys on a rank of x",
        shape.heads, shape.kv_heads
    );
    let needed = format!(
        "multiples of the {exchange} ranks of context that exchange heads; context_attention = \"gather\" or \"ring\" needs none"
    );
    Err(Error::invalid(name, found, needed))
}

type Exchange = fn(&Spread, &Context, &Neighbours, &Tensor) -> Result<Tensor>;

fn exchanged(
    context: &Context,
    (spread, neighbours): (&Spread, &Neighbours),
    x: &Var,
    [there, back]: [Exchange; 2],
) -> Result<Var> {
    let out = there(spread, context, neighbours, x.tensor())?;
    let (context, spread, neighbours) = (context.clone(), spread.clone(), neighbours.clone());
    Ok(Var::record_one(
        "exchange heads",
        &[x],
        out,
        false,
        move |d_out| Ok(vec![Some(back(&spread, &context, &neighbours, &d_out)?)]),
    ))
}
