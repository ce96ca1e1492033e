//! The pipeline stage that holds each parameter, found without running the model.

use crate::{Config, Result, config::ParallelConfig};
use grid::Degrees;
use parallel::{model::Cut, work::dry_context};
use std::collections::BTreeMap;

/// The stage that holds each parameter on a grid of these degrees, by name; if several share it, the first.
///
/// # Errors
/// [`Error::Parallel`](crate::Error::Parallel) for a model that cannot be built, and for more parts than segments.
pub fn stages(config: &Config, degrees: &Degrees) -> Result<BTreeMap<String, usize>> {
    let builder = nn::Builder::new(&dry_context()?);
    let model = config.build(&builder)?;
    let parameters = builder.parameters();
    let stages = config.parallel.schedule.stages(degrees.pipeline);
    let at = Config {
        parallel: ParallelConfig {
            grid: *degrees,
            ..config.parallel.clone()
        },
        ..config.clone()
    };
    let depths = at.depths()?;
    let cut = Cut::new(&model, &parameters, stages, depths.as_deref())?;
    let stage = |parameter: &parallel::Parameter| {
        let stages = cut.stages_of(&parameter.segments());
        (
            parameter.name().to_owned(),
            stages.into_iter().min().unwrap_or(0),
        )
    };
    Ok(parameters.iter().map(stage).collect())
}
