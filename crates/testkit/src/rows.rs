//! Training on given rows, and comparison with what the same tokens give in rows of their own.

use crate::ranks;
use std::ops::Range;
use testing::{Observed, Outcome};
use train::{Config, Trainer, batches::Rows};

/// As [`train()`](crate::train), on the rows that `rows` gives for a step.
///
/// # Panics
/// As there.
pub fn train_rows(
    config: &Config,
    rows: impl Fn(u64, Range<usize>) -> train::Result<Rows> + Send + Sync + 'static,
) -> Outcome {
    let grid = config.grid().unwrap_or_else(|error| panic!("{error}"));
    let config = config.clone();
    let seen = ranks(grid.world_size(), move |world, device| {
        let context = config.context(&world, &device)?;
        let mut trainer = config.trainer(&context)?;
        let batch = |trainer: &Trainer, step| trainer.batch_of(step, |range| rows(step, range));
        Observed::of(&mut trainer, config.training.steps, batch)
    });
    Outcome::join(seen).unwrap_or_else(|reason| panic!("{reason}"))
}

/// The losses and gradients of a mean that divides by `share` times fewer tokens.
pub fn scaled(mut outcome: Outcome, share: f64) -> Outcome {
    let gradients = outcome.gradients.values_mut().flatten();
    let numbers = outcome.losses.iter_mut().chain(gradients);
    numbers.for_each(|number| *number *= share);
    outcome
}

/// Checks the first loss and the gradients, each number within `most` of its size or of 1.
///
/// # Panics
/// With the first that differs by more.
pub fn assert_near(found: &Outcome, expected: &Outcome, most: f64, what: &str) {
    let close = |found: f64, expected: f64, of: &str| {
        let error = (found - expected).abs();
        assert!(
            error <= most * expected.abs().max(1.0),
            "{what}: {of} {found} against {expected}"
        );
    };
    close(found.losses[0], expected.losses[0], "loss");
    assert!(expected.gradients.len() > 10);
    for (name, values) in &expected.gradients {
        let found = &found.gradients[name];
        assert_eq!(found.len(), values.len(), "{name}");
        let pairs = found.iter().zip(values);
        pairs.for_each(|(found, value)| close(*found, *value, name));
    }
}
