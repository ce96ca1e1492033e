//! The places of tokens in their sequences and documents, also where a pass has only the new ones.

use super::DTensor;
use crate::{Pass, cache::CachedRows};
use tensor::{Result, Tensor, Var, ops};

/// The place of each token in its sequence, for learnt positions.
///
/// # Shapes
/// `ids` and the result: rows x tokens, u32.
/// # Errors
/// [`Error::Invalid`](crate::Error::Invalid) if the pass has other new tokens; [`Error::OutOfMemory`](crate::Error::OutOfMemory).
pub fn places(pass: &Pass, ids: &Tensor) -> Result<Tensor> {
    let count = |tokens: usize| 0..tokens as u32;
    if let Some(cached) = of_new_tokens(pass, "places", ids)? {
        return cached.each(ids.device(), |all| count(all.len()).collect());
    }
    let (rows, sequence) = (ids.num_rows(), ids.columns());
    let numbers: Vec<u32> = (0..rows).flat_map(|_| count(sequence)).collect();
    Tensor::from_slice(ids.device(), &[rows, sequence], &numbers)
}

/// As [`ops::document_starts`], which [`attention`](fn@super::attention) takes.
///
/// # Errors
/// As there; [`Error::Invalid`](crate::Error::Invalid) if the pass has other new tokens.
pub fn document_starts(pass: &Pass, ids: &Tensor, end: u32) -> Result<Tensor> {
    match of_new_tokens(pass, "document_starts", ids)? {
        Some(cached) => cached.each(ids.device(), |all| starts(all, end)),
        None => ops::document_starts(ids, end),
    }
}

/// As [`ops::places_in_documents`].
///
/// # Errors
/// As [`document_starts`].
pub fn places_in_documents(pass: &Pass, ids: &Tensor, end: u32) -> Result<Tensor> {
    let places = |all: &[u32]| {
        let starts = starts(all, end);
        (0..).zip(starts).map(|(place, start)| place - start)
    };
    match of_new_tokens(pass, "places_in_documents", ids)? {
        Some(cached) => cached.each(ids.device(), |all| places(all).collect()),
        None => ops::places_in_documents(ids, end),
    }
}

fn of_new_tokens<'a>(
    pass: &'a Pass,
    operation: &str,
    ids: &Tensor,
) -> Result<Option<&'a CachedRows>> {
    let Some(cached) = pass.cached() else {
        return Ok(None);
    };
    cached.check(operation, ids.num_rows(), ids.columns())?;
    Ok(Some(cached))
}

fn starts(all: &[u32], end: u32) -> Vec<u32> {
    let mut start = 0;
    let mut of_token = Vec::with_capacity(all.len());
    for (place, id) in (0..).zip(all) {
        of_token.push(start);
        if *id == end {
            start = place + 1;
        }
    }
    of_token
}

/// The newest tokens of each row, in a pass over new tokens: those whose [outputs](crate::cache::NewTokens::outputs) are asked for, the
/// last one where a next token is predicted. In any other pass `x`.
///
/// # Shapes
/// `x`: rows x tokens x features. The result: rows x outputs x features, in a pass over new tokens.
/// # Cost
/// A copy of the tokens, if a row has more.
/// # Errors
/// [`Error::Invalid`](crate::Error::Invalid) if the pass has other new tokens; those of gathering spread vectors.
pub fn newest(x: DTensor) -> Result<DTensor> {
    let pass = x.pass().clone();
    let has_more = |cached: &&CachedRows| cached.num_new() > cached.num_outputs();
    let Some(cached) = pass.cached().filter(has_more) else {
        return Ok(x);
    };
    let outputs = cached.num_outputs();
    let (rows, tokens) = (cached.rows().len(), cached.num_new());
    let (leading, all) = (x.leading().to_vec(), x.tensor()?);
    cached.check("newest", leading[0], leading[1..].iter().product())?;
    let all = all.reshape(&[rows * tokens, all.columns()])?;
    let newest = [rows * outputs, all.columns()];
    let last = Tensor::empty(all.device(), all.dtype(), &newest)?;
    for row in 0..rows {
        let own = all.rows((row + 1) * tokens - outputs, outputs)?;
        ops::copy(&own, &last.rows(row * outputs, outputs)?)?;
    }
    let last = last.reshape(&[rows, outputs, all.columns()])?;
    DTensor::new(&pass, Var::constant(last), x.features(), x.cut())
}

#[cfg(test)]
mod tests {
    use super::starts;

    #[test]
    fn a_document_starts_after_the_token_that_ends_the_one_before() {
        assert_eq!(starts(&[1, 9, 2, 3, 9, 9, 4], 9), [0, 0, 2, 2, 2, 5, 6]);
        assert_eq!(starts(&[], 9), [0; 0]);
    }
}
