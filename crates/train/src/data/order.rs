//! The position of each sequence in the steps.

use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::permutation::Permutation;
use super::{Error, random};

/// How training sequences are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderMode {
    /// Each sequence starts at a random position: sequences overlap, and some tokens occur more often than
    /// others.
    #[default]
    Random,
    /// Windows lie side by side, and each epoch visits each of them once, in its own order.
    Epoch,
}

impl FromStr for OrderMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<OrderMode, Error> {
        match text {
            "random" => Ok(OrderMode::Random),
            "epoch" => Ok(OrderMode::Epoch),
            _ => Err(Error::Setting {
                setting: "order",
                found: text.into(),
                needed: "random or epoch",
            }),
        }
    }
}

/// The order of the training part: a pure function of its fields, the step and the index in the global batch.
///
/// Ranks, grids and micro-batches do not matter, so every grid sees the same sequences at the same positions.
/// In epoch mode the size of the global batch does matter, because positions are counted through all steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// How sequences are chosen.
    pub mode: OrderMode,
    /// The seed of the order; weights and dropout have their own keys.
    pub seed: u64,
    /// Tokens per sequence.
    pub context: usize,
    /// Tokens of the training part, at least `context + 1`.
    pub length: usize,
    /// Sequences per step.
    pub global_batch: usize,
}

/// Separates the draws of the two modes under one seed.
const RANDOM_KEY: u64 = 1;
const EPOCH_KEY: u64 = 2;

impl Order {
    /// The first token of the sequence at `index` of the global batch of `step`, within the training part.
    ///
    /// The sequence and its last target end inside the part: the result is at most `length - context - 1`.
    pub fn start(&self, step: u64, index: usize) -> usize {
        match self.mode {
            OrderMode::Random => random::below(
                self.length - self.context,
                &[self.seed, RANDOM_KEY, step, index as u64],
            ),
            OrderMode::Epoch => {
                self.start_of(u128::from(step) * self.global_batch as u128 + index as u128)
            }
        }
    }

    /// As [`start`](Order::start) in epoch mode, for a place counted through all steps.
    pub(super) fn start_of(&self, place: u128) -> usize {
        self.window(place) * self.context
    }

    /// Number of adjacent windows in the training part; the last needs one more token for its last target.
    pub fn num_windows(&self) -> usize {
        (self.length - 1) / self.context
    }

    /// As [`check_range`], for its own global batch.
    pub(super) fn check_range(
        &self,
        operation: &'static str,
        range: &Range<usize>,
    ) -> Result<(), Error> {
        check_range(operation, range, self.global_batch)
    }

    /// The window at that position in epoch mode.
    fn window(&self, place: u128) -> usize {
        let windows = self.num_windows() as u128;
        let (epoch, within) = ((place / windows) as u64, (place % windows) as usize);
        Permutation::new(
            self.num_windows(),
            random::word(&[self.seed, EPOCH_KEY, epoch]),
        )
        .apply(within)
    }
}

/// The first token of validation sequence `sequence` out of `total`, spread evenly over a part of `length`
/// tokens.
///
/// Sequences beyond `total` start again from the first. They do not overlap as long as `total` windows fit side
/// by side.
pub fn validation_start(sequence: usize, total: usize, context: usize, length: usize) -> usize {
    let last_start = (length - context - 1) as u128;
    let place = (sequence % total.max(1)) as u128;
    (place * last_start / total.saturating_sub(1).max(1) as u128) as usize
}

/// That a range of sequences lies in the global batch.
pub(super) fn check_range(
    operation: &'static str,
    range: &Range<usize>,
    global_batch: usize,
) -> Result<(), Error> {
    let (start, end) = (range.start, range.end);
    match start <= end && end <= global_batch {
        true => Ok(()),
        false => Err(Error::BatchRange {
            operation,
            start,
            end,
            global_batch,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn order(
        mode: OrderMode,
        seed: u64,
        context: usize,
        extra: usize,
        global_batch: usize,
    ) -> Order {
        Order {
            mode,
            seed,
            context,
            length: context + 1 + extra,
            global_batch,
        }
    }

    proptest! {
        #[test]
        fn sequences_stay_inside(
            seed: u64, context in 1usize..200, extra in 0usize..5000, global_batch in 1usize..64,
            step: u64, place: prop::sample::Index, epoch: bool,
        ) {
            let mode = if epoch { OrderMode::Epoch } else { OrderMode::Random };
            let order = order(mode, seed, context, extra, global_batch);
            let start = order.start(step, place.index(global_batch));
            prop_assert!(start + context < order.length);
        }

        #[test]
        fn an_epoch_sees_each_window_once(
            seed: u64, context in 1usize..20, extra in 0usize..2000, global_batch in 1usize..17, epoch in 0usize..3,
        ) {
            let order = order(OrderMode::Epoch, seed, context, extra, global_batch);
            let windows = order.num_windows();
            let mut starts: Vec<usize> = (epoch * windows..(epoch + 1) * windows)
                .map(|place| order.start((place / global_batch) as u64, place % global_batch))
                .collect();
            starts.sort_unstable();
            prop_assert_eq!(starts, (0..windows).map(|window| window * context).collect::<Vec<_>>());
        }

        #[test]
        fn validation_is_even_and_apart(context in 1usize..50, extra in 0usize..3000, share in 1usize..5) {
            let length = context + 1 + extra;
            let total = ((length - 1) / context / share).max(1);
            let starts: Vec<usize> = (0..total).map(|at| validation_start(at, total, context, length)).collect();
            prop_assert!(starts.iter().all(|start| start + context < length));
            prop_assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= context));
            prop_assert_eq!(validation_start(total, total, context, length), starts[0]);
        }
    }

    #[test]
    fn random_reaches_both_ends() {
        let order = order(OrderMode::Random, 3, 4, 9, 1);
        let starts: Vec<usize> = (0..500).map(|step| order.start(step, 0)).collect();
        assert_eq!(starts.iter().min(), Some(&0));
        assert_eq!(starts.iter().max(), Some(&9));
    }

    #[test]
    fn epochs_differ() {
        let order = order(OrderMode::Epoch, 3, 1, 99, 100);
        let first: Vec<usize> = (0..100).map(|index| order.start(0, index)).collect();
        let second: Vec<usize> = (0..100).map(|index| order.start(1, index)).collect();
        assert_ne!(first, second);
    }

    #[test]
    fn modes_have_names() {
        assert_eq!("epoch".parse::<OrderMode>().unwrap(), OrderMode::Epoch);
        assert_eq!(
            serde_json::to_string(&OrderMode::Random).unwrap(),
            "\"random\""
        );
        let error = "shuffled".parse::<OrderMode>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "data: order is shuffled, needs random or epoch"
        );
    }
}
