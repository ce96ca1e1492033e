//! What one rank sees of a training.

use grid::IndexBox;
use parallel::{Batch, Counters, data::Part};
use train::{Result, Trainer};

/// A parameter's name, its global shape, the indices of this rank's shard, and the values there.
pub(crate) type Shard = (String, Vec<usize>, IndexBox, Vec<f64>);

/// What one rank sees of a training.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Loss of each step.
    pub losses: Vec<f64>,
    /// Norm of the gradients of each step.
    pub norms: Vec<f64>,
    pub(crate) gradients: [Vec<Shard>; 2],
    pub(crate) weights: Vec<Shard>,
    pub(crate) counters: Counters,
    pub(crate) in_levels: usize,
    pub(crate) peak_bytes: usize,
}

impl Observed {
    /// Trains for `steps` steps on the batches that `batch` returns, and records all results.
    ///
    /// # Errors
    /// Those of `batch` and of [`Trainer::step`]; [`Error::Parallel`](train::Error::Parallel) if gradients or weights
    /// cannot be read.
    pub fn of(
        trainer: &mut Trainer,
        steps: u64,
        batch: impl Fn(&Trainer, u64) -> Result<Batch>,
    ) -> Result<Observed> {
        let mut seen = Observed::default();
        for step in 0..steps {
            let batch = batch(trainer, step)?;
            trainer.context().reset_counters();
            let result = trainer.step(&batch)?;
            seen.losses.push(result.loss);
            seen.norms.push(result.gradient_norm);
            if step == 0 && steps > 1 {
                seen.gradients[0] = gradients(trainer)?;
            }
        }
        // Before gradients and weights are read, which gathers them where they are shards.
        seen.peak_bytes = trainer.context().device().memory_use().peak;
        seen.counters = trainer.context().counters();
        let report = trainer.context().report();
        let counted = seen.counters.iter();
        let levels = counted.map(|(axis, operation, ..)| report.in_levels(axis, operation));
        seen.in_levels = levels.sum();
        seen.gradients[1] = gradients(trainer)?;
        if steps == 1 {
            seen.gradients[0] = seen.gradients[1].clone();
        }
        seen.weights = shards(trainer, Part::Weights)?;
        Ok(seen)
    }
}

// A step leaves its gradients in place, or the directions of matrices that it updated as a whole.
fn gradients(trainer: &Trainer) -> Result<Vec<Shard>> {
    shards(trainer, Part::Gradient)
}

fn shards(trainer: &Trainer, part: Part) -> Result<Vec<Shard>> {
    let mut shards = Vec::new();
    let visit = |parameter: &parallel::Parameter, numbers| {
        let shape = parameter.global_shape().to_vec();
        shards.push((
            parameter.name().to_owned(),
            shape,
            parameter.index().clone(),
            numbers,
        ));
        Ok::<_, train::Error>(())
    };
    trainer.parameters().read(part, visit)?;
    Ok(shards)
}
