//! Causal attention, over whole sequences, within documents or within windows, and rotary positions.

use super::{float, holds, launch};
use crate::{Arguments, Tensor, shape::product};
use hal::{
    DType, Error, Kernel, Result,
    kernel::{AttentionBackward, AttentionForward, AttentionJoin, Rope},
};

pub use hal::kernel::{AttentionDropout, AttentionShape, RotaryFrequencies, RotaryStretch};

/// `softmax(scale * q k^T, causal) v`, and the log-sum-exp of its scores for the backward pass.
///
/// With `documents`, a query attends only to keys of its own document: those from the place that `documents` gives for it,
/// the place of the document's first token in the complete sequence. Places that decrease along a sequence leave the result
/// unspecified. A query always attends to its own key, if that is held here; one that meets no key has the output 0 and the
/// log-sum-exp -infinity.
///
/// # Shapes
/// `q` and the result: (sequences * queries) x (heads * head_size). `k`, `v`: (sequences * keys) x (kv_heads * head_size).
/// `documents`: sequences x queries, u32. The log-sum-exp: sequences x heads x queries, of the accumulator type.
/// # Cost
/// Blocks of keys before the documents and the windows of a block of queries are skipped.
/// # Errors
/// [`Error::Invalid`] if the shape has no elements in a head, no key in a window, queries without a key or heads that are not a multiple of
/// its key and value heads, if its dropout is not valid, and if a tensor's size or type does not match it.
pub fn attention(
    shape: AttentionShape,
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    documents: Option<&Tensor>,
) -> Result<(Tensor, Tensor)> {
    check(&shape, q, k, v)?;
    check_documents(&shape, documents)?;
    let out = Tensor::empty(q.device(), q.dtype(), q.shape())?;
    let statistics = [shape.sequences, shape.heads, shape.queries];
    let log_sum_exp = Tensor::empty(q.device(), q.dtype().accumulator(), &statistics)?;
    let mut args = Arguments::default();
    let kernel = AttentionForward {
        shape,
        q: args.take(q),
        k: args.take(k),
        v: args.take(v),
        out: args.take(&out),
        log_sum_exp: args.take(&log_sum_exp),
        documents: documents.map(|starts| args.take(starts)),
    };
    launch(&mut args, Kernel::AttentionForward(kernel))?;
    Ok((out, log_sum_exp))
}

/// Joins the attention on a block of keys to that on others, in place: `out` becomes the attention on all of them. The
/// result is the log-sum-exp of all.
///
/// # Shapes
/// `out` and its log-sum-exp: as [`attention`](fn@attention) returns them, of the accumulator type. `block`: what it returns for
/// the block.
/// # Errors
/// [`Error::Invalid`] if a tensor's size or type does not match the shape's queries, heads and head size.
pub fn attention_join(
    shape: AttentionShape,
    (out, log_sum_exp): (&Tensor, &Tensor),
    (block, block_log_sum_exp): (&Tensor, &Tensor),
) -> Result<Tensor> {
    float("attention_join", block)?;
    let sizes = [shape.sequences, shape.heads, shape.queries];
    let statistics = product("attention_join", &sizes)?;
    let elements = product("attention_join", &[statistics, shape.head_size])?;
    let accumulator = block.dtype().accumulator();
    holds("attention_join", "output", out, elements, accumulator)?;
    holds("attention_join", "block", block, elements, block.dtype())?;
    for sums in [log_sum_exp, block_log_sum_exp] {
        holds(
            "attention_join",
            "log-sum-exp",
            sums,
            statistics,
            accumulator,
        )?;
    }
    let joined = Tensor::empty(out.device(), accumulator, &sizes)?;
    let mut args = Arguments::default();
    let kernel = AttentionJoin {
        sequences: shape.sequences,
        queries: shape.queries,
        heads: shape.heads,
        head_size: shape.head_size,
        out: args.take(out),
        log_sum_exp: args.take(log_sum_exp),
        block: args.take(block),
        block_log_sum_exp: args.take(block_log_sum_exp),
        joined: args.take(&joined),
    };
    launch(&mut args, Kernel::AttentionJoin(kernel))?;
    Ok(joined)
}

/// What the backward pass of attention needs of the forward pass.
///
/// Where a query also attends to keys that are not in `k`, `out` and `log_sum_exp` are those of all its keys.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names of the forward pass")]
pub struct Saved {
    pub q: Tensor,
    pub k: Tensor,
    pub v: Tensor,
    pub out: Tensor,
    pub log_sum_exp: Tensor,
    pub documents: Option<Tensor>,
}

/// Gradients of [`attention`](fn@attention): of q, k and v. Keys to which no query attends have the gradient 0.
///
/// # Errors
/// As [`attention`](fn@attention).
pub fn attention_backward(
    shape: AttentionShape,
    saved: &Saved,
    d_out: &Tensor,
) -> Result<[Tensor; 3]> {
    let Saved {
        q,
        k,
        v,
        out,
        log_sum_exp,
        documents,
    } = saved;
    check(&shape, q, k, v)?;
    check_documents(&shape, documents.as_ref())?;
    holds(
        "attention_backward",
        "output",
        out,
        q.num_elements(),
        q.dtype(),
    )?;
    holds(
        "attention_backward",
        "gradient",
        d_out,
        q.num_elements(),
        q.dtype(),
    )?;
    let sizes = [shape.sequences, shape.heads, shape.queries];
    let statistics = product("attention_backward", &sizes)?;
    holds(
        "attention_backward",
        "log-sum-exp",
        log_sum_exp,
        statistics,
        q.dtype().accumulator(),
    )?;
    let like = |x: &Tensor| Tensor::empty(x.device(), x.dtype(), x.shape());
    let [d_q, d_k, d_v] = [like(q)?, like(k)?, like(v)?];
    let mut args = Arguments::default();
    let kernel = AttentionBackward {
        shape,
        q: args.take(q),
        k: args.take(k),
        v: args.take(v),
        out: args.take(out),
        log_sum_exp: args.take(log_sum_exp),
        d_out: args.take(d_out),
        documents: documents.as_ref().map(|starts| args.take(starts)),
        d_q: args.take(&d_q),
        d_k: args.take(&d_k),
        d_v: args.take(&d_v),
    };
    launch(&mut args, Kernel::AttentionBackward(kernel))?;
    Ok([d_q, d_k, d_v])
}

// What holds for any tensors.
pub(super) fn check_sizes(shape: &AttentionShape) -> Result<()> {
    if shape.kv_heads == 0 || !shape.heads.is_multiple_of(shape.kv_heads) {
        let found = format!(
            "{} heads over {} key and value heads",
            shape.heads, shape.kv_heads
        );
        return Err(Error::invalid("attention", found, "a multiple"));
    }
    if shape.head_size == 0 {
        let found = "heads of no elements";
        return Err(Error::invalid("attention", found, "at least one"));
    }
    if shape.window == Some(0) {
        let found = "a window of no keys";
        return Err(Error::invalid("attention", found, "at least one"));
    }
    if let Some(cap) = shape
        .score_cap
        .filter(|cap| !(*cap > 0.0 && cap.is_finite()))
    {
        let found = format!("scores capped at {cap}");
        return Err(Error::invalid("attention", found, "a number above 0"));
    }
    Ok(())
}

fn check(shape: &AttentionShape, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<()> {
    float("attention", q)?;
    check_sizes(shape)?;
    if shape.keys == 0 && shape.queries > 0 {
        let found = format!("{} queries per sequence, and no key", shape.queries);
        return Err(Error::invalid("attention", found, "at least one key"));
    }
    let elements = |rows: usize, heads: usize| {
        product(
            "attention",
            &[shape.sequences, rows, heads, shape.head_size],
        )
    };
    let queries = elements(shape.queries, shape.heads)?;
    let keys = elements(shape.keys, shape.kv_heads)?;
    holds("attention", "queries", q, queries, q.dtype())?;
    holds("attention", "keys", k, keys, q.dtype())?;
    holds("attention", "values", v, keys, q.dtype())?;
    shape
        .dropout
        .map_or(Ok(()), |dropout| check_dropout(shape, &dropout))
}

fn check_documents(shape: &AttentionShape, documents: Option<&Tensor>) -> Result<()> {
    let Some(starts) = documents else {
        return Ok(());
    };
    let count = product("attention", &[shape.sequences, shape.queries])?;
    holds("attention", "documents", starts, count, DType::U32)
}

// The local weights lie within the global numbering, and the last global weight has a number.
fn check_dropout(shape: &AttentionShape, dropout: &AttentionDropout) -> Result<()> {
    let end = |first: usize, count: usize| first.checked_add(count);
    let within = |end: Option<usize>, size: usize| end.is_some_and(|end| end <= size);
    let keys = end(shape.first_key, shape.keys);
    let queries = end(shape.first_key, shape.first_query);
    let queries = queries.and_then(|first| end(first, shape.queries));
    let sequences = end(dropout.first_sequence, shape.sequences);
    let weights = sequences.and_then(|sequences| {
        [dropout.global_heads, dropout.sequence, dropout.sequence]
            .iter()
            .try_fold(sequences, |product, &size| product.checked_mul(size))
    });
    let fits = (0.0..1.0).contains(&dropout.probability)
        && within(end(dropout.first_head, shape.heads), dropout.global_heads)
        && within(keys, dropout.sequence)
        && within(queries, dropout.sequence)
        && weights.is_some();
    match fits {
        true => Ok(()),
        false => Err(Error::invalid(
            "attention",
            format!(
                "{} queries from key {} on, {} keys from place {} on, {} heads and {dropout:?}",
                shape.queries, shape.first_query, shape.keys, shape.first_key, shape.heads
            ),
            "a probability in [0, 1), heads, queries and keys among the global ones, and fewer than 2^64 weights",
        )),
    }
}

/// The heads that rotary positions turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotaryHead {
    /// Elements of a head.
    pub size: usize,
    /// How many of them turn, the first ones; even.
    pub turned: usize,
}

impl From<usize> for RotaryHead {
    /// Heads of this size, of which all elements turn.
    fn from(size: usize) -> RotaryHead {
        RotaryHead { size, turned: size }
    }
}

/// Rotates the heads of `x` by their positions; `backward` rotates in the opposite direction. The rows of every sequence
/// have the positions from `first_position` on.
///
/// # Shapes
/// `x` and the result: (sequences * sequence) x (heads * head size).
/// # Errors
/// [`Error::Invalid`] for integers, and if the number of rows is not a multiple of `sequence`, the number of columns is not a
/// multiple of the head size, the number of elements that turn is odd, 0 or above that size, or the last position does not fit
/// into a `usize`.
pub fn rope(
    x: &Tensor,
    sequence: usize,
    first_position: usize,
    head: impl Into<RotaryHead>,
    frequencies: impl Into<RotaryFrequencies>,
    backward: bool,
) -> Result<Tensor> {
    let (head, frequencies) = (head.into(), frequencies.into());
    let fits = sequence > 0 && x.num_rows().is_multiple_of(sequence);
    if !fits {
        let needed = format!("rows of a multiple of {sequence}");
        return Err(Error::invalid("rope", format!("{x:?}"), needed));
    }
    if first_position.checked_add(sequence).is_none() {
        let found = format!("{sequence} positions from {first_position} on");
        return Err(Error::invalid("rope", found, "positions below 2^64"));
    }
    rotate(
        x,
        None,
        [sequence, first_position],
        (head, frequencies),
        backward,
    )
}

/// As [`rope`], where each row has a position of its own.
///
/// # Shapes
/// `x` and the result: rows x (heads * head size). `places`: rows, u32.
/// # Errors
/// As for [`rope`], and if `places` are other than that.
pub fn rope_at(
    x: &Tensor,
    places: &Tensor,
    head: impl Into<RotaryHead>,
    frequencies: impl Into<RotaryFrequencies>,
) -> Result<Tensor> {
    holds("rope", "places", places, x.num_rows(), DType::U32)?;
    let (head, frequencies) = (head.into(), frequencies.into());
    rotate(x, Some(places), [1, 0], (head, frequencies), false)
}

fn rotate(
    x: &Tensor,
    places: Option<&Tensor>,
    [sequence, first_position]: [usize; 2],
    (head, frequencies): (RotaryHead, RotaryFrequencies),
    backward: bool,
) -> Result<Tensor> {
    float("rope", x)?;
    let RotaryHead { size, turned } = head;
    let columns = x.columns();
    let turns = turned > 0 && turned <= size && turned.is_multiple_of(2);
    if !(turns && columns > 0 && columns.is_multiple_of(size)) {
        let found = match turned == size {
            true => format!("{x:?}"),
            false => format!("{x:?}, of whose heads {turned} elements turn"),
        };
        let needed = format!("columns of even heads of {size}");
        return Err(Error::invalid("rope", found, needed));
    }
    let out = Tensor::empty(x.device(), x.dtype(), x.shape())?;
    let mut args = Arguments::default();
    let kernel = Rope {
        x: args.take(x),
        out: args.take(&out),
        rows: x.num_rows(),
        sequence,
        first_position,
        places: places.map(|places| args.take(places)),
        heads: columns / size,
        head_size: size,
        turned,
        frequencies,
        backward,
    };
    launch(&mut args, Kernel::Rope(kernel))?;
    Ok(out)
}
