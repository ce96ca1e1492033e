//! Finds which numbers were the first to become non-finite.

use super::Trainer;
use crate::{Error, Result};
use parallel::{data::Part, layers::loss::LossValue};

/// The error for a loss or norm that is not finite. Collective: every rank calls it, and all return the same
/// error.
pub(super) fn report(
    trainer: &Trainer,
    step: u64,
    what: &'static str,
    value: f64,
    losses: &[(usize, LossValue)],
) -> Result<Error> {
    let micro_batch = agree(trainer, first_bad_loss(losses)?)?.unwrap_or_else(|| "none".into());
    let weights = first_bad(trainer, Part::Weights, "weights")?;
    let tensor = match weights {
        Some(found) => Some(found),
        None => first_bad(trainer, Part::Gradient, "gradient")?,
    };
    let tensor =
        agree(trainer, tensor)?.unwrap_or_else(|| "none among weights and gradients".into());
    Ok(Error::Diverged {
        step,
        what,
        value,
        micro_batch,
        tensor,
    })
}

fn first_bad_loss(losses: &[(usize, LossValue)]) -> Result<Option<String>> {
    for (micro_batch, loss) in losses {
        if !loss.value.to_f64()?.iter().all(|loss| loss.is_finite()) {
            return Ok(Some(micro_batch.to_string()));
        }
    }
    Ok(None)
}

fn first_bad(trainer: &Trainer, part: Part, word: &str) -> Result<Option<String>> {
    let mut bad = Vec::new();
    trainer
        .parameters()
        .read::<Error>(part, |parameter, numbers| {
            if let Some(value) = numbers.iter().find(|number| !number.is_finite()) {
                bad.push((parameter.name().to_owned(), *value));
            }
            Ok(())
        })?;
    let in_order = trainer.parameters().parameters().iter();
    let found = in_order
        .filter_map(|parameter| bad.iter().find(|(name, _)| name == parameter.name()))
        .next();
    let rank = trainer.context.world().rank();
    Ok(found.map(|(name, value)| format!("{word} of {name} holds {value} on rank {rank}")))
}

// The finding of the first rank that found something.
fn agree(trainer: &Trainer, found: Option<String>) -> Result<Option<String>> {
    let all = trainer
        .context
        .world()
        .everyone()
        .all_gather(found.unwrap_or_default().as_bytes())?;
    let first = all.into_iter().find(|bytes| !bytes.is_empty());
    Ok(first.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}
