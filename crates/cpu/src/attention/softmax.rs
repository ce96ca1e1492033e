//! Turns rows of scores into rows of weights.

use super::{GROUP, pack::padded};
use crate::lanes::Lanes;
use std::ops::Range;

/// Brings scores below a bound: s becomes `cap * tanh(s / cap)`.
#[inline(always)]
pub(super) fn cap_scores<R: Lanes>(scores: &mut [R], cap: R) {
    let reciprocal = R::ONE / cap;
    for score in scores {
        *score = cap * (*score * reciprocal).tanh();
    }
}

/// As [`cap_scores`], and stores the slope at each score.
#[inline(always)]
pub(super) fn cap_scores_with_slopes<R: Lanes>(scores: &mut [R], slopes: &mut [R], cap: R) {
    let reciprocal = R::ONE / cap;
    for (score, slope) in scores.iter_mut().zip(slopes) {
        let part = (*score * reciprocal).tanh();
        *score = cap * part;
        *slope = R::ONE - part * part;
    }
}

/// Turns a query's scores on all keys that are computed into weights that are not yet divided by their sum, with those of keys that it
/// does not meet 0. Returns the largest score and the sum, if it meets any key.
#[inline(always)]
pub(super) fn weights<R: Lanes>(
    scores: &mut [R],
    met: Range<usize>,
    cap: Option<f64>,
) -> Option<(R, R)> {
    if met.is_empty() {
        scores.fill(R::ZERO);
        return None;
    }
    // The sum has one order for every place of the query in its group.
    let (scores, rest) = scores.split_at_mut(padded(met.end));
    rest.fill(R::ZERO);
    if let Some(cap) = cap {
        cap_scores(scores, R::of(cap));
    }
    Some(exponentials(scores, met))
}

/// Turns the scores of a row into weights that are not yet divided by their sum.
///
/// Only the scores of the keys `met`, of which there is at least one, are used; the others become weights of 0. The row's
/// length is a multiple of [`GROUP`]. Returns the largest score and the sum of the weights, which are exp(score
/// - largest).
#[inline(always)]
fn exponentials<R: Lanes>(row: &mut [R], met: Range<usize>) -> (R, R) {
    row[..met.start].fill(R::LOWEST);
    row[met.end..].fill(R::LOWEST);
    let largest = largest(row);
    let mut sums = [R::ZERO; GROUP];
    for group in row.as_chunks_mut::<GROUP>().0 {
        for lane in 0..GROUP {
            group[lane] = (group[lane] - largest).exp();
            sums[lane] += group[lane];
        }
    }
    (largest, fold(sums, |a, b| a + b))
}

#[inline(always)]
fn largest<R: Lanes>(row: &[R]) -> R {
    let mut largest = [R::LOWEST; GROUP];
    for group in row.as_chunks::<GROUP>().0 {
        for lane in 0..GROUP {
            largest[lane] = group[lane].max(largest[lane]);
        }
    }
    fold(largest, R::max)
}

/// Turns the scores of a row into weights, and the gradients of the weights into those of the scores.
///
/// Uses those of the keys `met`; the others become 0. `keep` is the factor of each weight after the softmax
/// (dropout); `scores` becomes the weights times `keep`.
#[inline(always)]
pub(super) fn gradients<R: Lanes>(
    scores: &mut [R],
    d_weights: &mut [R],
    keep: Option<&[R]>,
    met: Range<usize>,
    log_sum_exp: R,
    delta: R,
) {
    for unmet in [0..met.start, met.end..scores.len()] {
        scores[unmet.clone()].fill(R::LOWEST);
        d_weights[unmet].fill(R::ZERO);
    }
    let len = scores.len();
    let d_weights = &mut d_weights[..len];
    match keep {
        None => {
            for i in 0..len {
                let weight = (scores[i] - log_sum_exp).exp();
                scores[i] = weight;
                d_weights[i] = weight * (d_weights[i] - delta);
            }
        }
        Some(keep) => {
            let keep = &keep[..len];
            for i in 0..len {
                let weight = (scores[i] - log_sum_exp).exp();
                scores[i] = weight * keep[i];
                d_weights[i] = weight * (keep[i] * d_weights[i] - delta);
            }
        }
    }
}

/// The sum of products of two rows of equal length, a multiple of [`GROUP`].
#[inline(always)]
pub(super) fn dot<R: Lanes>(a: &[R], b: &[R]) -> R {
    let mut sums = [R::ZERO; GROUP];
    let (a, b) = (a.as_chunks::<GROUP>().0, b.as_chunks::<GROUP>().0);
    for group in 0..a.len().min(b.len()) {
        for lane in 0..GROUP {
            sums[lane] += a[group][lane] * b[group][lane];
        }
    }
    fold(sums, |a, b| a + b)
}

/// Folds the halves of a group onto each other until one number is left: four short steps instead of fifteen.
#[inline(always)]
fn fold<R: Lanes>(mut lanes: [R; GROUP], join: impl Fn(R, R) -> R) -> R {
    let mut half = GROUP / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] = join(lanes[lane], lanes[lane + half]);
        }
        half /= 2;
    }
    lanes[0]
}
