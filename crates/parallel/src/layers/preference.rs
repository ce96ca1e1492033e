//! Direct preference optimisation: a loss of pairs of sequences, of which one was preferred to the other.
//!
//! A pair lies in one row, so no cut of the batch can part it. The log-probability of a sequence is a sum over its tokens,
//! wherever they are: ranks of Context gather one number per token, and every rank adds those of its rows in their order.

use super::{
    DTensor, Loss,
    loss::{self, scaled},
};
use crate::counters::Subject;
use tensor::{
    Error, Result, Tensor, Var,
    ops::{self, BinaryOp},
};

/// The columns that say what each token of a row belongs to, and what is known of the pairs.
#[derive(Clone, Copy, Debug)]
pub struct PairColumns<'a> {
    /// rows x tokens, u32: the token that follows, or `u32::MAX` where none counts.
    pub targets: &'a Tensor,
    /// rows x tokens, u32: the sequence of a token within its row. Pair i of a row has the sequences 2 i, which was chosen, and
    /// 2 i + 1, which was rejected.
    pub sequences: &'a Tensor,
    /// rows x pairs x 2, of the accumulator type: the log-probabilities of the sequences by the reference model.
    pub reference: &'a Tensor,
    /// rows x pairs x 2, of the accumulator type: the probability that each of the two is the better one, such as 1 and 0; two
    /// zeros where a row has fewer pairs.
    pub labels: &'a Tensor,
}

/// The sum over the pairs of the batch of their loss, over the number of rows of the global batch: of a pair with the labels 1 and 0,
/// `-log sigmoid(r(chosen) - r(rejected))`, where `r` is `beta` times the log-probability of a sequence beyond that of the reference
/// model.
///
/// The loss also holds, for each row, what is [reported](Loss::pairs) of its pairs.
///
/// # Shapes
/// `logits`: rows x tokens x vocabulary, cut by X or redistributed so; consumed, and overwritten by its gradient in backward.
/// Columns from `vocabulary` on are padding.
/// # Cost
/// That of [`cross_entropy`](super::cross_entropy); over Context, an all-gather of one number per token; and two small kernels for
/// each row. Of tensors with the size of the logits, none is allocated.
/// # Errors
/// [`Error::Invalid`] for columns of other shapes; those of the collectives.
/// # Source
/// Rafailov et al., 2023, arXiv:2305.18290, equation 7. Labels between 0 and 1 are those of conservative DPO (Mitchell, 2023).
pub fn preference_loss(
    logits: DTensor,
    columns: PairColumns<'_>,
    vocabulary: usize,
    beta: f64,
) -> Result<Loss> {
    let (context, rows) = (logits.context().clone(), logits.pass().rows().len());
    let pairs = checked(&logits, columns)?;
    let scale = -1.0 / logits.pass().num_rows() as f64;
    let (logits, by_row) = loss::cut_for_loss(logits)?;
    let tokens = loss::token_losses(&logits, columns.targets, vocabulary)?;
    let losses = match logits.spread() {
        Some(spread) => {
            let place = (Subject::Loss, &context.device().compute());
            let held = tokens.losses.reshape(&[tokens.losses.num_elements(), 1])?;
            spread.gather(&context, place, &held)?
        }
        None => tokens.losses.clone(),
    };
    let of_tokens = columns.sequences.columns();
    let losses = losses.reshape(&[rows * of_tokens, 1])?;
    let log_probabilities = sequence_sums(&losses, columns.sequences, 2 * pairs)?;
    let rewards = scaled(&log_probabilities, beta)?;
    let reference = columns.reference.reshape(rewards.shape())?;
    ops::axpby(-beta, &reference, 1.0, &rewards)?;
    // log sigmoid(a - b) is the first of the two log-softmax values of (a, b), which cannot overflow.
    let shares = ops::softmax(&rewards.reshape(&[rows * pairs, 2])?, true)?;
    let labels = columns.labels.reshape(&[rows * pairs, 2])?;
    let weighed = ops::binary(BinaryOp::Mul, &shares, &labels)?;
    let sums = ops::row_sum(&weighed.reshape(&[rows, 2 * pairs])?)?.reshape(&[rows])?;
    let sums = scaled(&sums, scale)?;
    let report = [
        &log_probabilities,
        &rewards,
        &labels.reshape(rewards.shape())?,
    ];
    let report = ops::concat(&report, 1)?;
    let sequences = columns.sequences.clone();
    let spread = logits.spread().cloned();
    let (total, input) = (loss::total(&sums)?, logits.into_held());
    let var = Var::record_one("preference_loss", &[&input], total, false, move |d_loss| {
        let d_shares = scaled(&labels, scale)?;
        let d_rewards = ops::softmax_backward(&shares, &d_shares, true)?;
        // Losses of tokens are their log-probabilities with the other sign.
        let d_sums = scaled(&d_rewards, -beta)?.reshape(&[rows * 2 * pairs, 1])?;
        let d_sums = ops::binary_row(BinaryOp::Mul, &d_sums, &d_loss)?;
        let d_losses = of_sequences(&d_sums, &sequences, 2 * pairs)?;
        let d_losses = match &spread {
            Some(spread) => spread.cut(&context, &d_losses)?,
            None => d_losses,
        };
        Ok(vec![Some(tokens.backward(&d_losses)?)])
    });
    Ok(Loss::of_pairs(var, by_row.then_some(sums), report))
}

// The number of pairs for which a row has room.
fn checked(logits: &DTensor, columns: PairColumns<'_>) -> Result<usize> {
    let (rows, leading) = (logits.pass().rows().len(), logits.leading());
    let (pairs, needed) = (columns.labels.num_elements() / (2 * rows).max(1), leading);
    for (name, column, elements) in [
        ("targets", columns.targets, needed.iter().product()),
        ("sequences", columns.sequences, needed.iter().product()),
        ("labels", columns.labels, 2 * rows * pairs.max(1)),
        ("reference", columns.reference, 2 * rows * pairs.max(1)),
    ] {
        if column.num_elements() != elements || column.shape().first() != Some(&rows) {
            let (found, needed) = (
                format!("{:?}", column.shape()),
                format!("{elements} elements in {rows} rows"),
            );
            return Err(Error::invalid(format!("column {name}"), found, needed));
        }
    }
    Ok(pairs)
}

// The log-probability of each sequence: in each row a sum over its tokens, in their order.
fn sequence_sums(losses: &Tensor, sequences: &Tensor, in_row: usize) -> Result<Tensor> {
    let (rows, tokens) = (sequences.num_rows(), sequences.columns());
    let sums = Tensor::zeros(losses.device(), losses.dtype(), &[rows * in_row, 1])?;
    for row in 0..rows {
        let (own, ids) = (losses.rows(row * tokens, tokens)?, sequences.rows(row, 1)?);
        ops::embedding_backward(&own, &ids, &sums.rows(row * in_row, in_row)?, 0)?;
    }
    scaled(&sums.reshape(&[rows, in_row])?, -1.0)
}

// For each token the number of its sequence.
fn of_sequences(numbers: &Tensor, sequences: &Tensor, in_row: usize) -> Result<Tensor> {
    let (rows, tokens) = (sequences.num_rows(), sequences.columns());
    let all = Tensor::empty(numbers.device(), numbers.dtype(), &[rows * tokens, 1])?;
    for row in 0..rows {
        let (own, ids) = (numbers.rows(row * in_row, in_row)?, sequences.rows(row, 1)?);
        let found = ops::embedding(&own, &ids, 0)?.reshape(&[tokens, 1])?;
        ops::copy(&found, &all.rows(row * tokens, tokens)?)?;
    }
    Ok(all)
}
