//! Options and names that a set of parameters refuses.

use super::{SetOptions, UpdatePlace};
use crate::{Context, Parameter, Reproducible};
use tensor::{Error, Result};

// The tree of a sum has no place for a rounding that depends on the grid.
pub(super) fn check_wire(context: &Context, options: &SetOptions) -> Result<()> {
    let settings = context.settings();
    let dtype = settings.gradient_wire.over_data(options.dtype);
    let rounds = options.trains && dtype != options.dtype.accumulator();
    match rounds && settings.reproducible == Reproducible::Grid {
        false => Ok(()),
        true => Err(Error::invalid(
            "reproducible sums",
            format!("gradients that travel in {}", dtype.name()),
            "gradient_wire mixed or wide",
        )),
    }
}

// Ranks agree on such state in the middle of an update, and means become directions of all gradients at once.
pub(super) fn check_placement(options: &SetOptions) -> Result<()> {
    let (state, gradients) = (&options.places.optimiser, &options.places.gradients);
    let on_host = options.trains && options.places.update == UpdatePlace::Host;
    let state_here = "a number for each weight, or state on the device";
    let (found, needed) = match (options.codes, options.factors) {
        (true, _) if state.is_beyond() => ("8-bit codes beyond the device", state_here),
        (_, true) if state.is_beyond() => {
            ("means of rows and columns beyond the device", state_here)
        }
        _ if on_host && !state.is_beyond() => (
            "an update on the host of state on the device",
            "state on the host or in files",
        ),
        _ if on_host && options.matrix_states.is_some() => (
            "an update on the host of matrices that are updated as a whole",
            "a number for each weight, or an update on the device",
        ),
        (_, true) if gradients.is_beyond() => (
            "means of rows and columns, with gradients beyond the device",
            "a number for each weight, or gradients on the device",
        ),
        _ => return Ok(()),
    };
    Err(Error::invalid("optimiser state", found, needed))
}

pub(super) fn check_names(parameters: &[Parameter]) -> Result<()> {
    let mut seen = std::collections::HashSet::new();
    match parameters
        .iter()
        .find(|parameter| !seen.insert(parameter.name()))
    {
        None => Ok(()),
        Some(twice) => Err(Error::invalid(
            "parameters",
            format!("two named {}", twice.name()),
            "one of each name",
        )),
    }
}
