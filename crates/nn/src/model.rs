//! Layers with the memory of their parameters, without a trainer.

use crate::Builder;
use parallel::{
    Context, Result,
    data::{ParameterSet, SetOptions},
};

/// The result of a build function, with the memory of its parameters.
#[derive(Clone, Debug)]
pub struct Assembled<M> {
    /// The value that the function returned.
    pub module: M,
    /// Its parameters on this rank.
    pub parameters: ParameterSet,
}

/// Builds layers for this rank's place on its grid, and allocates memory for all of them.
///
/// `build` is ordinary code that requests layers from the builder; it is the same for every grid. Layers cut
/// their parameters by the grid's axes. No rank ever holds more than its shard, and every grid starts from the
/// same values. A model for a pipeline or a trainer implements [`Model`](parallel::Model) instead.
///
/// # Errors
/// Those of `build`; [`Error::Invalid`](parallel::Error::Invalid) for two parameters with one name;
/// [`Error::OutOfMemory`](parallel::Error::OutOfMemory).
pub fn auto_parallelize<M>(
    context: &Context,
    options: SetOptions,
    build: impl FnOnce(&Builder) -> Result<M>,
) -> Result<Assembled<M>> {
    let builder = Builder::new(context);
    let module = build(&builder)?;
    let parameters = ParameterSet::allocate(context, builder.parameters(), &[], options)?;
    Ok(Assembled { module, parameters })
}
