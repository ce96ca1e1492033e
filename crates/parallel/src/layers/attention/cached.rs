//! Attention of new tokens to those that caches hold.

use super::{AttentionOptions, AttentionShape, DTensor};
use crate::cache::{CachedRows, Kept};
use grid::Axis;
use hal::kernel::pages::MOST_PAGED_QUERIES;
use tensor::{
    Device, Result, Tensor, Var,
    ops::{self, pages::PagedShape},
};

/// Attention of the new tokens of each row to all tokens of its sequence; their keys and values are kept.
///
/// Few new tokens attend to the pages where they lie, all rows at a time. For many, and where a device computes other sums for pages but
/// promises one order, the keys of a row are laid out once, and each row is a call of its own, as rows hold unequally many.
///
/// # Shapes
/// `shape`: that of the new tokens alone. `documents`: rows x new tokens.
/// # Errors
/// [`Error::Invalid`](tensor::Error::Invalid) if the pass has other new tokens, and as [`CachedRows::keep`];
/// [`Error::OutOfMemory`](tensor::Error::OutOfMemory).
pub(super) fn attention(
    options: &AttentionOptions,
    (shape, cached): (AttentionShape, &CachedRows),
    [q, k, v]: [&DTensor; 3],
    documents: Option<&Tensor>,
) -> Result<DTensor> {
    cached.check(&options.name, shape.sequences, shape.queries)?;
    let tokens = shape.sequences * shape.queries;
    let matrix = |x: &DTensor| {
        let all = x.tensor()?;
        all.reshape(&[tokens, all.columns()])
    };
    let [queries, keys, values] = [matrix(q)?, matrix(k)?, matrix(v)?];
    let documents = documents.map(|starts| starts.reshape(&[tokens]));
    let documents = documents.transpose()?;
    let heads = [shape.kv_heads, shape.head_size];
    let kept = cached.keep(&options.name, options.window, heads, [&keys, &values])?;
    let out = if cached.common_place() == Some(0) {
        // They hold nothing else.
        ops::attention(shape, &queries, &keys, &values, documents.as_ref())?.0
    } else if shape.queries <= MOST_PAGED_QUERIES && has_order_of_rows(queries.device()) {
        let paged = PagedShape {
            sequences: shape.sequences,
            queries: shape.queries,
            table_pages: kept.tables.num_pages,
            heads: shape.heads,
            pages: kept.pages.shape(),
            window: shape.window,
            scale: shape.scale,
            score_cap: shape.score_cap,
        };
        let tables = (&kept.tables.pages, &kept.tables.held);
        kept.pages
            .attention(paged, &queries, tables, documents.as_ref())?
    } else {
        by_rows(shape, &queries, &kept, documents.as_ref())?
    };
    let out = out.reshape(q.tensor()?.shape())?;
    DTensor::new(q.pass(), Var::constant(out), q.features(), Some(Axis::X))
}

// Whether attention to pages has the order of sums that is promised, if one is.
fn has_order_of_rows(device: &Device) -> bool {
    let capabilities = device.capabilities();
    capabilities.paged_sums || !capabilities.canonical_sums
}

fn by_rows(
    shape: AttentionShape,
    queries: &Tensor,
    kept: &Kept,
    documents: Option<&Tensor>,
) -> Result<Tensor> {
    let out = Tensor::empty(queries.device(), queries.dtype(), queries.shape())?;
    for (row, of_row) in kept.tables.rows().iter().enumerate() {
        let own = |all: &Tensor| all.rows(row * shape.queries, shape.queries);
        let [keys, values] = kept.pages.load(&of_row.slots(queries.device())?)?;
        let shape = AttentionShape {
            sequences: 1,
            keys: of_row.keys,
            first_query: of_row.keys - shape.queries,
            first_key: of_row.first,
            ..shape
        };
        let starts = documents.map(own).transpose()?;
        let (result, _) = ops::attention(shape, &own(queries)?, &keys, &values, starts.as_ref())?;
        ops::copy(&result, &own(&out)?)?;
    }
    Ok(out)
}
