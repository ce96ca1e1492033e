//! Options that do not fit each other, or the model.

use super::Options;
use crate::{Error, Result, config::Precision};
use hal::error::Counted;
use parallel::Parameter;

// A scale that adapts would change between the passes of a batch that was begun in the step before; a recorded step repeats the
// weights of one version. A digest is of one update, and so are equally many rows.
pub(super) fn check_delay(options: &Options) -> Result<()> {
    let schedule = options.schedule;
    if !schedule.delays_gradients() {
        return Ok(());
    }
    let (batch, updates) = (options.batch, options.micro_batches.max(1));
    let by_stages = schedule.updates_each_micro_batch();
    let (key, found, needed) = match options.precision {
        Precision::F16 => ("training.precision", "f16".into(), "f64, f32 or bf16"),
        _ if options.graph => ("training.graph", "true".into(), "false"),
        _ if by_stages && options.digest_every > 0 => {
            let found = options.digest_every.to_string();
            ("training.digest_every", found, "0")
        }
        _ if by_stages && !batch.is_multiple_of(updates) => {
            let found = format!(
                "{} in {}",
                Counted(batch, "row"),
                Counted(updates, "micro-batch")
            );
            ("training.batch", found, "as many rows in each")
        }
        _ => return Ok(()),
    };
    let found = format!("{found} with schedule {schedule}");
    Err(Error::setting(key, found, needed))
}

// A group without parameters is a misspelt name.
pub(super) fn check_groups(options: &Options, parameters: &[Parameter]) -> Result<()> {
    for name in options.groups.keys() {
        if !parameters
            .iter()
            .any(|parameter| parameter.group() == Some(name))
        {
            let mut known: Vec<&str> = parameters.iter().filter_map(Parameter::group).collect();
            known.sort_unstable();
            known.dedup();
            let known = if known.is_empty() {
                "no group".into()
            } else {
                known.join(", ")
            };
            return Err(Error::setting(
                "groups",
                format_args!("`{name}`"),
                format!("a group of the model, which has {known}"),
            ));
        }
    }
    Ok(())
}
