//! Attention of new tokens to those that caches hold.

use super::{AttentionOptions, AttentionShape, DTensor};
use crate::cache::{CachedRows, Kept};
use grid::Axis;
use tensor::{Result, Tensor, Var, ops};

/// Attention of the new tokens of each row to all tokens of its sequence; their keys and values are kept.
///
/// Rows hold unequally many keys, so that each is a call of its own.
///
/// # Shapes
/// `shape`: that of the new tokens alone. `documents`: rows x new tokens.
/// # Errors
/// [`Error::Invalid`](tensor::Error::Invalid) if the pass has other new tokens, and as
/// [`SequenceCache::append`](crate::cache::SequenceCache); [`Error::OutOfMemory`](tensor::Error::OutOfMemory).
pub(super) fn attention(
    options: &AttentionOptions,
    (shape, cached): (AttentionShape, &CachedRows),
    [q, k, v]: [&DTensor; 3],
    documents: Option<&Tensor>,
) -> Result<DTensor> {
    cached.check(&options.name, shape.sequences, shape.queries)?;
    let (rows, tokens) = (shape.sequences, shape.queries);
    let matrix = |x: &DTensor| {
        let all = x.tensor()?;
        all.reshape(&[rows * tokens, all.columns()])
    };
    let [queries, keys, values] = [matrix(q)?, matrix(k)?, matrix(v)?];
    let documents = documents.map(|starts| starts.reshape(&[rows * tokens]));
    let documents = documents.transpose()?;
    let of_row = |row: usize| {
        let own = |all: &Tensor| all.rows(row * tokens, tokens);
        let cache = &cached.rows()[row].cache;
        let new = [&own(&keys)?, &own(&values)?];
        let Kept {
            first,
            keys,
            values,
        } = cache.append(&options.name, new, options.window)?;
        let shape = AttentionShape {
            sequences: 1,
            keys: keys.num_rows(),
            first_query: keys.num_rows() - tokens,
            first_key: first,
            ..shape
        };
        let starts = documents.as_ref().map(own).transpose()?;
        Ok(ops::attention(shape, &own(&queries)?, &keys, &values, starts.as_ref())?.0)
    };
    let out = match rows {
        1 => of_row(0)?.reshape(q.tensor()?.shape())?,
        _ => {
            let out = Tensor::empty(queries.device(), queries.dtype(), queries.shape())?;
            for row in 0..rows {
                ops::copy(&of_row(row)?, &out.rows(row * tokens, tokens)?)?;
            }
            out.reshape(q.tensor()?.shape())?
        }
    };
    DTensor::new(q.pass(), Var::constant(out), q.features(), Some(Axis::X))
}
