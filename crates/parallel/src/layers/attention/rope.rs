//! Rotary positions on the grid.

use super::{DTensor, context};
use crate::cache::CachedRows;
use tensor::{
    Result, Tensor, Var,
    ops::{
        self,
        attention::{RotaryFrequencies, RotaryHead},
    },
};

/// Rotary positions of the heads of `x`, whose rows are tokens of complete sequences, or in a pass over
/// [new tokens](crate::cache::NewTokens) those alone. `head` is the size of a head, perhaps with the number of elements that turn;
/// `frequencies` is their base, or a base with a stretch.
///
/// # Shapes
/// `x` and the result: tokens x (heads/X * head size).
/// # Cost
/// No collective, unless X spreads the vectors, which are then gathered.
/// # Errors
/// [`Error::Invalid`](crate::Error::Invalid) if the features are not a whole number of even heads, or the rows not a whole
/// number of sequences.
pub fn rope(
    x: &DTensor,
    sequence: usize,
    head: impl Into<RotaryHead>,
    frequencies: impl Into<RotaryFrequencies>,
) -> Result<DTensor> {
    let (head, frequencies) = (head.into(), frequencies.into());
    if let Some(cached) = x.pass().cached() {
        return of_new_tokens(x, cached, sequence, (head, frequencies));
    }
    let spread = context::cut(x, sequence);
    let chunks = spread.map(|spread| spread.own_chunks(x.context()));
    let input = if chunks.is_some() {
        x.held_var()
    } else {
        x.var()?
    };
    let rotated = move |x: &Tensor, backward: bool| {
        let Some(chunks) = &chunks else {
            return ops::rope(x, sequence, 0, head, frequencies, backward);
        };
        let out = Tensor::empty(x.device(), x.dtype(), x.shape())?;
        for (held, tokens) in chunks {
            let own = x.rows(held.start, held.len())?;
            let turned = ops::rope(
                &own,
                tokens.len(),
                tokens.start,
                head,
                frequencies,
                backward,
            )?;
            ops::copy(&turned, &out.rows(held.start, held.len())?)?;
        }
        Ok(out)
    };
    let out = rotated(input.tensor(), false)?;
    let var = Var::record_one("rope", &[input], out, false, move |d_out| {
        Ok(vec![Some(rotated(&d_out, true)?)])
    });
    Ok(x.like(var))
}

// Each row's positions begin where its cache ends.
fn of_new_tokens(
    x: &DTensor,
    cached: &CachedRows,
    sequence: usize,
    (head, frequencies): (RotaryHead, RotaryFrequencies),
) -> Result<DTensor> {
    let input = x.tensor()?;
    cached.check("rope", input.num_rows() / sequence.max(1), sequence)?;
    let out = match cached.common_place() {
        Some(first) => ops::rope(input, sequence, first, head, frequencies, false)?,
        None => ops::rope_at(input, &cached.places(input.device())?, head, frequencies)?,
    };
    Ok(x.like(Var::constant(out)))
}
