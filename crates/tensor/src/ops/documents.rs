//! Where the documents of sequences of tokens start.

use super::launch;
use crate::{Arguments, Tensor};
use hal::{DType, Error, Kernel, Result, kernel::Documents};

/// For each token of `ids`, the place of the first token of its document in its sequence: what
/// [`attention`](fn@super::attention) takes to stay within documents. A document ends with the token `end`, and with its
/// sequence.
///
/// # Shapes
/// `ids`: any dims, of which the last is a sequence, u32. The result: as `ids`.
/// # Ordering
/// Queued on the compute stream; the host does not wait.
/// # Errors
/// [`Error::Invalid`] for ids that are not u32, and for sequences of 2^32 tokens or more; [`Error::OutOfMemory`].
pub fn document_starts(ids: &Tensor, end: u32) -> Result<Tensor> {
    documents(ids, end, false)
}

/// For each token of `ids`, its place in its document, counted from the document's first token: the positions that the
/// tokens of a document have if it is alone. Otherwise as [`document_starts`].
///
/// # Errors
/// As there.
pub fn places_in_documents(ids: &Tensor, end: u32) -> Result<Tensor> {
    documents(ids, end, true)
}

fn documents(ids: &Tensor, end: u32, places: bool) -> Result<Tensor> {
    let (sequences, sequence) = (ids.num_rows(), ids.columns());
    if ids.dtype() != DType::U32 || u32::try_from(sequence).is_err() {
        let needed = "u32 ids in sequences of fewer than 2^32";
        return Err(Error::invalid("documents", format!("{ids:?}"), needed));
    }
    let out = Tensor::empty(ids.device(), DType::U32, ids.shape())?;
    let mut args = Arguments::default();
    let kernel = Documents {
        ids: args.take(ids),
        out: args.take(&out),
        sequences,
        sequence,
        end,
        places,
    };
    launch(&mut args, Kernel::Documents(kernel))?;
    Ok(out)
}
