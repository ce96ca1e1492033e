//! Rotary positions on the grid.

use super::{DTensor, context};
use tensor::{Result, Tensor, Var, ops};

/// Rotary positions of the heads of `x`, whose rows are tokens of complete sequences.
///
/// # Shapes
/// `x` and the result: tokens x (heads/X * head_size).
/// # Cost
/// No collective, unless X spreads the vectors, which are then gathered.
/// # Errors
/// [`Error::Invalid`](crate::Error::Invalid) if the features are not a whole number of even heads, or the rows not a whole
/// number of sequences.
pub fn rope(x: &DTensor, sequence: usize, head_size: usize, base: f64) -> Result<DTensor> {
    let spread = context::cut(x, sequence);
    let chunks = spread.map(|spread| spread.own_chunks(x.context()));
    let input = if chunks.is_some() {
        x.held_var()
    } else {
        x.var()?
    };
    let rotated = move |x: &Tensor, backward: bool| {
        let Some(chunks) = &chunks else {
            return ops::rope(x, sequence, 0, head_size, base, backward);
        };
        let out = Tensor::empty(x.device(), x.dtype(), x.shape())?;
        for (held, tokens) in chunks {
            let own = x.rows(held.start, held.len())?;
            let turned = ops::rope(&own, tokens.len(), tokens.start, head_size, base, backward)?;
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
