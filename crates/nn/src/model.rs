//! A model with its parameters.

use crate::Builder;
use parallel::{
    Context, Result,
    data::{ParameterSet, SetOptions, Tied},
};

/// What a model's function built, with the memory of its parameters.
#[derive(Clone, Debug)]
pub struct Model<M> {
    /// What the function gave.
    pub module: M,
    /// Its parameters on this rank.
    pub parameters: ParameterSet,
}

/// Builds a model for this rank's place on its grid.
///
/// `build` is ordinary code that asks the builder for layers; it is the same for every grid. Layers cut their
/// parameters by the grid's axes; no rank ever holds more than its shard, and every grid starts from the same values.
///
/// # Errors
/// Those of `build`; [`Error::OutOfMemory`](parallel::Error::OutOfMemory).
pub fn auto_parallelize<M>(
    context: &Context,
    options: SetOptions,
    build: impl FnOnce(&Builder) -> Result<M>,
) -> Result<Model<M>> {
    with_ties(context, options, &[], build)
}

/// As [`auto_parallelize`], with parameters that two pipeline stages share.
pub(crate) fn with_ties<M>(
    context: &Context,
    options: SetOptions,
    tied: &[Tied],
    build: impl FnOnce(&Builder) -> Result<M>,
) -> Result<Model<M>> {
    let builder = Builder::new(context);
    let module = build(&builder)?;
    let parameters = ParameterSet::allocate(context, builder.parameters(), tied, options)?;
    Ok(Model { module, parameters })
}
