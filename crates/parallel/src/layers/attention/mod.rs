//! Attention on the grid: heads (and the groups of query heads that share a key) are cut over X, so it runs
//! locally; with keys and values of other ranks, where Context cuts the sequences (`context`); or with those that a pass over
//! new tokens has kept (`cached`).

mod cached;
mod context;
mod rope;

pub use rope::rope;

use super::DTensor;
use crate::work::AttentionWork;
use grid::Axis;
use tensor::{
    Error, Result, Tensor, Var,
    ops::{
        self,
        attention::{AttentionDropout, AttentionShape, Saved},
    },
};

/// Options of an attention layer.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionOptions {
    /// Name, which keys the random draws of dropout.
    pub name: String,
    /// Tokens per sequence.
    pub sequence: usize,
    /// Elements of a head.
    pub head_size: usize,
    /// The keys to which a query attends at most, its own and those right before it; `None`: all before it.
    pub window: Option<usize>,
    /// The bound that scores approach: score s becomes `cap * tanh(s / cap)`; `None`: they stay as they are.
    pub score_cap: Option<f64>,
    /// Fraction of attention weights dropped in training.
    pub dropout: f64,
}

/// Causal attention of queries on keys and values, head by head; with `documents`, within each document of a sequence, and
/// with a window, to the keys right before a query.
///
/// In a pass over [new tokens](crate::cache::NewTokens), a sequence is those alone; they attend to the kept ones too.
///
/// # Shapes
/// `q` and the result: tokens x (heads/X * head_size). `k`, `v`: tokens x (kv_heads/X * head_size). `documents`: for every
/// token of this rank's sequences, on all ranks of X and Context, the place of its document's first token in the sequence,
/// u32: [`document_starts`](ops::document_starts) computes them from the ids.
/// # Cost
/// No collective, unless Context cuts the sequences; then those of [`ContextAttention`](crate::ContextAttention). Keys of
/// earlier documents and before windows are skipped, block by block; the counted work of a model is that of sequences of one
/// document.
/// # Errors
/// [`Error::Invalid`] if the features are not a whole number of heads on every rank, the tokens not a whole number of
/// sequences, the query heads not a multiple of the others, the window 0, the cap not above 0, or `k`, `v` and `documents` of other sizes,
/// and for a dropout of 1 or more; those of the collectives.
pub fn attention(
    options: &AttentionOptions,
    q: &DTensor,
    k: &DTensor,
    v: &DTensor,
    documents: Option<&Tensor>,
) -> Result<DTensor> {
    let [q, k, v] = [q, k, v].map(|x| x.redistribute(Some(Axis::X), &options.name));
    let (q, k, v) = (q?, k?, v?);
    let shape = local_shape(options, &q, &k)?;
    if let Some(ledger) = q.pass().ledger() {
        ledger.attention(AttentionWork {
            heads: shape.sequences * shape.heads,
            sequence: shape.queries,
            head_size: shape.head_size,
            window: options.window,
            query_features: q.features(),
            key_features: k.features(),
            tokens: q.share().tokens,
            has_backward: [&q, &k, &v].iter().any(|x| x.held_var().wants_gradient()),
        });
    }
    if let Some(cached) = q.pass().cached() {
        return cached::attention(options, (shape, cached), [&q, &k, &v], documents);
    }
    if let Some(spread) = context::cut(&q, options.sequence) {
        let [k, v] = [k, v].map(|x| x.spread_like(&q));
        return context::attention(options, (shape, spread), [&q, &k?, &v?], documents);
    }
    let var = local(shape, [q.var()?, k.var()?, v.var()?], documents)?;
    DTensor::new(q.pass(), var, q.features(), Some(Axis::X))
}

// Of all keys that the queries attend to.
fn local(shape: AttentionShape, inputs: [&Var; 3], documents: Option<&Tensor>) -> Result<Var> {
    let [q, k, v] = inputs.map(Var::tensor);
    let (out, log_sum_exp) = ops::attention(shape, q, k, v, documents)?;
    let saved = Saved {
        q: q.clone(),
        k: k.clone(),
        v: v.clone(),
        out: out.clone(),
        log_sum_exp,
        documents: documents.cloned(),
    };
    Ok(Var::record_one(
        "attention",
        &inputs,
        out,
        false,
        move |d_out| {
            Ok(ops::attention_backward(shape, &saved, &d_out)?
                .map(Some)
                .into())
        },
    ))
}

// Of complete sequences.
fn local_shape(options: &AttentionOptions, q: &DTensor, k: &DTensor) -> Result<AttentionShape> {
    let AttentionOptions {
        sequence,
        head_size,
        ..
    } = *options;
    let whole = |features: usize| head_size > 0 && features.is_multiple_of(head_size);
    let (of_q, of_k) = (q.held().columns(), k.held().columns());
    if !whole(of_q) || !whole(of_k) {
        let found = format!("{of_q} query and {of_k} key features on a rank");
        return Err(Error::invalid(
            &options.name,
            found,
            format!("multiples of the head size {head_size}"),
        ));
    }
    if options.window == Some(0) {
        let found = "a window of no keys";
        return Err(Error::invalid(&options.name, found, "at least one"));
    }
    let rows = q.leading().iter().product::<usize>();
    if sequence == 0 || !rows.is_multiple_of(sequence) {
        let needed = format!("a multiple of the sequence of {sequence}");
        return Err(Error::invalid(
            &options.name,
            format!("{rows} tokens"),
            needed,
        ));
    }
    let pass = q.pass();
    let dropout = (options.dropout > 0.0 && pass.is_training()).then(|| AttentionDropout {
        probability: options.dropout,
        key: pass.key(&options.name),
        first_sequence: pass.rows().start,
        first_head: q.first_feature() / head_size,
        global_heads: q.features() / head_size,
        sequence,
    });
    let heads = [of_q / head_size, of_k / head_size, head_size];
    Ok(AttentionShape {
        window: options.window,
        score_cap: options.score_cap,
        dropout,
        ..AttentionShape::causal(rows / sequence, sequence, heads)
    })
}
