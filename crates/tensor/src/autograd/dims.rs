//! Differentiable operations that move elements, and batched matmuls.

use super::Var;
use crate::{
    Tensor,
    ops::{self, Transpose, dims},
};
use hal::Result;

impl Var {
    /// A copy whose dim `i` is dim `order[i]` of this value.
    ///
    /// # Errors
    /// [`Error::Invalid`](hal::Error::Invalid) when `order` does not name each dim once, and for more than four runs of
    /// dims that stay together.
    pub fn permute(&self, order: &[usize]) -> Result<Var> {
        let out = ops::permute(self.tensor(), order)?;
        let back = dims::inverse(order);
        Ok(self.record_moved("permute", out, move |d_out| ops::permute(&d_out, &back)))
    }

    /// `count` indices of a dim, from `start` on.
    ///
    /// # Errors
    /// [`Error::Invalid`](hal::Error::Invalid) when they do not lie within the dim, and for a dim that the value does
    /// not have.
    pub fn slice(&self, dim: usize, start: usize, count: usize) -> Result<Var> {
        let out = ops::slice(self.tensor(), dim, start, count)?;
        let size = self.tensor().shape()[dim];
        let placed = move |d_out: Tensor| dims::place(&d_out, dim, start, size);
        Ok(self.record_moved("slice", out, placed))
    }

    /// Concatenates the values along a dim.
    ///
    /// # Errors
    /// [`Error::Invalid`](hal::Error::Invalid) for no values, for a dim that they do not have, and when types or other
    /// dims differ.
    pub fn concat(parts: &[&Var], dim: usize) -> Result<Var> {
        let tensors: Vec<&Tensor> = parts.iter().map(|part| part.tensor()).collect();
        let out = ops::concat(&tensors, dim)?;
        let sizes: Vec<usize> = tensors.iter().map(|part| part.shape()[dim]).collect();
        Ok(Var::record_one("concat", parts, out, false, move |d_out| {
            let mut start = 0;
            let mut next = |size: &usize| {
                start += size;
                Ok(Some(ops::slice(&d_out, dim, start - size, *size)?))
            };
            sizes.iter().map(&mut next).collect()
        }))
    }

    /// The rows of this value where `mask` is not 0, and those of `other` elsewhere. No gradient flows to a row
    /// that was not selected, whatever value it holds.
    ///
    /// # Shapes
    /// `mask`: u32, one element for each row, which is a run of the last dim.
    /// # Errors
    /// [`Error::Invalid`](hal::Error::Invalid) for integers, for another mask, and when lengths or types differ.
    pub fn select(&self, mask: &Tensor, other: &Var) -> Result<Var> {
        let (a, b) = (self.tensor(), other.tensor());
        let out = ops::select_rows(mask, Some(a), Some(b), a)?;
        let mask = mask.clone();
        Ok(Var::record_one(
            "select",
            &[self, other],
            out,
            false,
            move |d_out| {
                let d_a = ops::select_rows(&mask, Some(&d_out), None, &d_out)?;
                let d_b = ops::select_rows(&mask, None, Some(&d_out), &d_out)?;
                Ok(vec![Some(d_a), Some(d_b)])
            },
        ))
    }

    /// The rows of this table with these ids; zeros for ids that it does not hold.
    ///
    /// # Shapes
    /// `self`: rows x columns. `ids`: u32. The result: ids x columns.
    /// # Errors
    /// [`Error::Invalid`](hal::Error::Invalid) for ids of another type, and for a table of integers.
    pub fn gather(&self, ids: &Tensor) -> Result<Var> {
        let out = ops::embedding(self.tensor(), ids, 0)?;
        let (table, ids) = (self.tensor().clone(), ids.clone());
        Ok(Var::record_one(
            "gather",
            &[self],
            out,
            false,
            move |d_out| {
                let accumulator = table.dtype().accumulator();
                let d_table = Tensor::zeros(table.device(), accumulator, table.shape())?;
                ops::embedding_backward(&d_out, &ids, &d_table, 0)?;
                Ok(vec![Some(d_table)])
            },
        ))
    }

    /// The matmuls of the matrices in the last two dims of both, one for each index of the leading dims.
    ///
    /// # Shapes
    /// As [`matmul_batched`](fn@ops::matmul_batched), without `First`: .. x m x k by .. x k x n, or by .. x n x k.
    /// # Errors
    /// As [`matmul_batched`](fn@ops::matmul_batched).
    pub fn matmul_batched(&self, other: &Var, transposed: bool) -> Result<Var> {
        let (a, b) = (self.tensor().clone(), other.tensor().clone());
        let transpose = match transposed {
            true => Transpose::Second,
            false => Transpose::None,
        };
        let out = ops::matmul_batched(&a, &b, transpose)?;
        let wants = [self, other].map(Var::wants_gradient);
        let backward = move |d_out: Tensor| {
            let d_a = || match transposed {
                true => ops::matmul_batched(&d_out, &b, Transpose::None),
                false => ops::matmul_batched(&d_out, &b, Transpose::Second),
            };
            let d_b = || match transposed {
                true => ops::matmul_batched(&d_out, &a, Transpose::First),
                false => ops::matmul_batched(&a, &d_out, Transpose::First),
            };
            Ok(vec![
                wants[0].then(d_a).transpose()?,
                wants[1].then(d_b).transpose()?,
            ])
        };
        Ok(Var::record_one(
            "matmul_batched",
            &[self, other],
            out,
            false,
            backward,
        ))
    }
}
