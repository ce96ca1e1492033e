//! Permutes, repeats, cuts and joins dims of tensors.

use super::{launch, layout, same_type};
use crate::{Arguments, Tensor};
use hal::{DType, Error, Kernel, Result, kernel::CopyStrided};

/// A copy whose dim `i` is dim `order[i]` of `x`.
///
/// # Errors
/// [`Error::Invalid`] when `order` does not name each dim once, and for more than four runs of dims that stay together.
pub fn permute(x: &Tensor, order: &[usize]) -> Result<Tensor> {
    let dims = x.shape().len();
    let named = |dim: usize| order.iter().filter(|&&other| other == dim).count() == 1;
    if order.len() != dims || !(0..dims).all(named) {
        let needed = format!("each of the {dims} dims of {x:?} once");
        return Err(Error::invalid("permute", format!("{order:?}"), needed));
    }
    let strides = strides_of(x.shape());
    let sizes: Vec<usize> = order.iter().map(|&dim| x.shape()[dim]).collect();
    let steps: Vec<usize> = order.iter().map(|&dim| strides[dim]).collect();
    strided("permute", x, &sizes, &steps)
}

/// The order that undoes [`permute`].
pub(crate) fn inverse(order: &[usize]) -> Vec<usize> {
    let place = |dim: usize| order.iter().position(|&other| other == dim);
    (0..order.len()).filter_map(place).collect()
}

/// Expands `x` to `shape` in a copy, repeating dims of one element.
///
/// # Errors
/// [`Error::Invalid`] when another dim differs, and for more than four runs of dims that are alike.
pub fn expand(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    let fits = |(have, want): (&usize, &usize)| *have == *want || *have == 1;
    if x.shape().len() != shape.len() || !x.shape().iter().zip(shape).all(fits) {
        let needed = "the same dims, but for those of one element";
        let found = format!("{x:?} as {shape:?}");
        return Err(Error::invalid("expand", found, needed));
    }
    let step = |(dim, stride): (usize, usize)| if x.shape()[dim] == 1 { 0 } else { stride };
    let strides = strides_of(x.shape()).into_iter().enumerate();
    strided("expand", x, shape, &strides.map(step).collect::<Vec<_>>())
}

/// A copy of `count` indices of a dim, from `start` on.
///
/// # Errors
/// [`Error::Invalid`] when they do not lie within the dim, and for a dim that `x` does not have.
pub fn slice(x: &Tensor, dim: usize, start: usize, count: usize) -> Result<Tensor> {
    let [outer, size, inner] = around("slice", x, dim)?;
    if start.checked_add(count).is_none_or(|end| end > size) {
        let found = format!("{start}..{start}+{count} of dim {dim} of {x:?}");
        return Err(Error::invalid("slice", found, format!("at most {size}")));
    }
    let runs = x.reshape(&[outer, size.saturating_mul(inner)])?;
    let mut shape = x.shape().to_vec();
    shape[dim] = count;
    layout::columns(
        &runs,
        start.saturating_mul(inner),
        count.saturating_mul(inner),
    )?
    .reshape(&shape)
}

/// Concatenates the tensors along a dim.
///
/// # Errors
/// [`Error::Invalid`] for no tensors, for a dim that they do not have, and when types or other dims differ.
pub fn concat(parts: &[&Tensor], dim: usize) -> Result<Tensor> {
    let Some(first) = parts.first() else {
        return Err(Error::invalid("concat", "no tensors", "at least one"));
    };
    same_type("concat", first, parts)?;
    let [outer, _, inner] = around("concat", first, dim)?;
    let others = |x: &Tensor| {
        let mut shape = x.shape().to_vec();
        shape
            .iter_mut()
            .skip(dim)
            .take(1)
            .for_each(|size| *size = 0);
        shape
    };
    if let Some(other) = parts.iter().find(|part| others(part) != others(first)) {
        let found = format!("{other:?} after {first:?} along dim {dim}");
        return Err(Error::invalid("concat", found, "all other dims equal"));
    }
    let sizes = parts.iter().map(|part| part.shape()[dim]);
    let total = sizes.fold(0, usize::saturating_add);
    let mut shape = first.shape().to_vec();
    shape[dim] = total;
    let out = Tensor::empty(first.device(), first.dtype(), &shape)?;
    let (runs, mut start) = (out.reshape(&[outer, total.saturating_mul(inner)])?, 0);
    for part in parts {
        let columns = part.shape()[dim].saturating_mul(inner);
        layout::set_columns(&runs, start, &part.reshape(&[outer, columns])?)?;
        start = start.saturating_add(columns);
    }
    Ok(out)
}

/// Zeros with `size` indices along a dim, with `x` copied in from `start` on: the gradient of
/// [`slice`](fn@slice).
/// # Errors
/// [`Error::Invalid`] when they do not lie within the dim.
pub(crate) fn place(x: &Tensor, dim: usize, start: usize, size: usize) -> Result<Tensor> {
    let [outer, count, inner] = around("place", x, dim)?;
    let mut shape = x.shape().to_vec();
    shape[dim] = size;
    let out = Tensor::zeros(x.device(), x.dtype(), &shape)?;
    let (runs, part) = (
        out.reshape(&[outer, size.saturating_mul(inner)])?,
        x.reshape(&[outer, count.saturating_mul(inner)])?,
    );
    layout::set_columns(&runs, start.saturating_mul(inner), &part)?;
    Ok(out)
}

/// A row of `classes` numbers per id: 1 at the id and 0 elsewhere; all zeros for ids of at least `classes`.
///
/// # Shapes
/// `ids`: u32. The result: ids x classes.
/// # Errors
/// [`Error::Invalid`] for ids of another type, and an integer `dtype`.
pub fn one_hot(ids: &Tensor, classes: usize, dtype: DType) -> Result<Tensor> {
    let identity = Tensor::zeros(ids.device(), dtype, &[classes, classes])?;
    let ones = Tensor::full(ids.device(), dtype, &[classes, 1], 1.0)?;
    layout::diagonal(&identity, &ones)?;
    super::embedding(&identity, ids, 0)
}

// Number of elements before, along and after a dim.
fn around(operation: &str, x: &Tensor, dim: usize) -> Result<[usize; 3]> {
    let shape = x.shape();
    if dim >= shape.len() {
        let found = format!("dim {dim} of {x:?}");
        return Err(Error::invalid(operation, found, "a dim of the tensor"));
    }
    let (outer, inner) = (&shape[..dim], &shape[dim + 1..]);
    Ok([elements(outer), shape[dim], elements(inner)])
}

// If a tensor has no elements, its dims may have any size.
fn elements(dims: &[usize]) -> usize {
    dims.iter().fold(1, |all, size| all.saturating_mul(*size))
}

fn strides_of(shape: &[usize]) -> Vec<usize> {
    let after = |dim: usize| elements(&shape[dim + 1..]);
    (0..shape.len()).map(after).collect()
}

fn strided(operation: &str, x: &Tensor, sizes: &[usize], strides: &[usize]) -> Result<Tensor> {
    let out = Tensor::empty(x.device(), x.dtype(), sizes)?;
    let runs = merged(sizes, strides);
    if runs.len() > 4 {
        let found = format!("{x:?} as {sizes:?}, {} runs of dims", runs.len());
        return Err(Error::invalid(operation, found, "at most 4"));
    }
    let (mut sizes, mut strides) = ([1; 4], [0; 4]);
    let first = 4 - runs.len();
    for (index, (size, stride)) in runs.into_iter().enumerate() {
        (sizes[first + index], strides[first + index]) = (size, stride);
    }
    let mut args = Arguments::default();
    let kernel = CopyStrided {
        src: args.take(x),
        dst: args.take(&out),
        sizes,
        strides,
    };
    launch(&mut args, Kernel::CopyStrided(kernel))?;
    Ok(out)
}

// Merges neighbouring dims that a single stride traverses, and drops dims of one element.
fn merged(sizes: &[usize], strides: &[usize]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (&size, &stride) in sizes.iter().zip(strides).filter(|(size, _)| **size != 1) {
        match runs.last_mut() {
            Some(last) if last.1 == size.saturating_mul(stride) => {
                *last = (last.0.saturating_mul(size), stride)
            }
            _ => runs.push((size, stride)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dims_that_stay_together_are_one() {
        assert_eq!(merged(&[2, 3, 4], &[12, 4, 1]), [(24, 1)]);
        assert_eq!(merged(&[4, 2, 3], &[1, 12, 4]), [(4, 1), (6, 4)]);
        assert_eq!(merged(&[2, 1, 5], &[1, 0, 0]), [(2, 1), (5, 0)]);
        assert_eq!(merged(&[1, 1], &[0, 0]), []);
        assert_eq!(inverse(&[2, 0, 1]), [1, 2, 0]);
    }
}
