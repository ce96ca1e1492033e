//! The gradients of a step, summed over replicas.

use crate::{
    Result,
    data::Elements,
    visitors::{Lengths, Push, Put, Replace},
};
use burn::{module::Module, optim::GradientsParams};
use library::collective::{AxisGroup, GradientReducer, ParameterShards, ReducerOptions};
use std::{collections::HashMap, rc::Rc};

/// Gives all ranks of a group the parameters of its rank 0. Collective.
///
/// # Errors
/// Those of [`AxisGroup::broadcast`]; a tensor whose data the backend cannot read.
pub fn broadcast<M: Module>(group: &AxisGroup, model: M) -> Result<M> {
    if group.size() == 1 {
        return Ok(model);
    }
    replace(model, |_, elements| elements.broadcast(group))
}

/// Divides a model's parameters over the ranks of a group, for [`ReducerOptions::shards`].
///
/// # Errors
/// Those of [`ParameterShards::new`].
pub fn shards<M: Module>(group: &AxisGroup, model: &M) -> Result<Rc<ParameterShards>> {
    let mut found = Lengths::default();
    model.visit(&mut found);
    let lengths = found.lengths.iter();
    let shards = ParameterShards::new(
        group,
        lengths.map(|(name, length)| (name.as_str(), *length)),
    )?;
    Ok(Rc::new(shards))
}

fn replace<M: Module>(model: M, work: impl FnMut(&str, &mut Elements) -> Result<()>) -> Result<M> {
    let mut mapper = Replace {
        path: Vec::new(),
        work,
        outcome: Ok(()),
    };
    let model = model.map(&mut mapper);
    mapper.outcome.map(|()| model)
}

/// A reducer of [`GradientsParams`] over the ranks of a group, for a training loop of one's own.
///
/// ```
/// use burn::{
///     nn::LinearConfig,
///     optim::{GradientsParams, ModuleOptimizer, SgdConfig},
///     tensor::{Device, Tensor},
/// };
/// use fascicle_burn::{
///     AxisGroup, GradientsReducer, ReducerOptions, Result, broadcast,
///     library::{job, parallel::Context},
/// };
///
/// fn train(context: &Context) -> Result<Vec<f32>> {
///     let device = Device::flex().autodiff();
///     let group = AxisGroup::named(context, "data")?;
///     let mut model = broadcast(&group, LinearConfig::new(2, 1).with_bias(false).init(&device))?;
///     let mut reducer = GradientsReducer::new(&group, ReducerOptions::default())?;
///     let mut optimiser = ModuleOptimizer::from(SgdConfig::new().init());
///     let rows = Tensor::<2>::from_data([[group.rank() as f32, 1.0]], &device);
///
///     let gradients = model.forward(rows).sum().backward();
///     let gradients = GradientsParams::from_grads(gradients, &model);
///     let gradients = reducer.reduce(&model, gradients)?;
///     let reduced = gradients.get::<2>(model.weight.id).expect("reduced");
///     model = optimiser.step(0.1, model, gradients);
///     model = reducer.gather(model)?;
/// #   drop(model);
///     Ok(reduced.into_data().try_into_vec()?)
/// }
///
/// # fn main() -> Result<()> {
/// let job = job().grid("data=4").expect("a grid");
/// assert_eq!(job.run(train)?, [[1.5, 1.0]; 4]);
/// # Ok(())
/// # }
/// ```
///
/// # Cost
/// On a backend of the CPU whose tensors are vectors, such as flex, no gradient of more than 16 KiB is copied: its memory goes to the
/// reducer and back. Other backends copy gradients to the host and back.
#[derive(Debug)]
pub struct GradientsReducer {
    reducer: GradientReducer,
    shards: Option<Rc<ParameterShards>>,
}

impl GradientsReducer {
    /// A reducer over the ranks of a group. Collective.
    ///
    /// # Errors
    /// Those of [`GradientReducer::new`].
    pub fn new(group: &AxisGroup, options: ReducerOptions) -> Result<GradientsReducer> {
        let shards = options.shards.clone();
        let reducer = GradientReducer::new(group, options)?;
        Ok(GradientsReducer { reducer, shards })
    }

    /// The sums or averages of gradients over the group, in the order of the module's parameters; with shards, only those of
    /// parameters that this rank owns, so that an optimiser makes state for no others. Collective: every rank has gradients of the
    /// same parameters. Gradients of parameters outside of the model stay as they are.
    ///
    /// # Errors
    /// [`hal::Error::Invalid`](library::hal::Error::Invalid) on every rank if ranks have gradients of other parameters, with the first
    /// difference; those of the collectives; a tensor whose data the backend cannot read.
    pub fn reduce<M: Module>(
        &mut self,
        model: &M,
        mut gradients: GradientsParams,
    ) -> Result<GradientsParams> {
        let mut push = Push {
            path: Vec::new(),
            gradients: &mut gradients,
            reducer: &mut self.reducer,
            shapes: HashMap::new(),
            outcome: Ok(()),
        };
        model.visit(&mut push);
        let Push {
            mut shapes,
            outcome,
            ..
        } = push;
        if let Err(error) = outcome {
            // What was pushed before is of no use.
            self.reducer.abandon();
            return Err(error);
        }
        let mut reduced = HashMap::new();
        for gradient in self.reducer.finish()? {
            let name = gradient.name().to_owned();
            let shape = shapes.remove(&name).expect("it was pushed above");
            reduced.insert(name, (shape, Elements::of(gradient)?));
        }
        model.visit(&mut Put {
            path: Vec::new(),
            reduced,
            gradients: &mut gradients,
        });
        Ok(gradients)
    }

    /// The model with the parameters of their owners; without shards it is returned as it is. Collective.
    ///
    /// # Errors
    /// Those of [`ParameterShards::gather`]; a tensor whose data the backend cannot read.
    pub fn gather<M: Module>(&self, model: M) -> Result<M> {
        match &self.shards {
            Some(shards) => replace(model, |name, elements| elements.gather(shards, name)),
            None => Ok(model),
        }
    }

    /// Whether ranks update only the parameters that they own.
    pub(crate) fn is_sharded(&self) -> bool {
        self.shards.is_some()
    }
}
