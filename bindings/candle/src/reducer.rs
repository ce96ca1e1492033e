//! The gradients of a backward pass, summed over replicas.

use crate::{
    NamedVars, Result,
    storage::{is_whole, place, with_floats, with_storage},
};
use candle_core::{CpuStorage, Tensor, Var, backprop::GradStore};
use library::{
    collective::{AxisGroup, GradientReducer, ParameterShards, Reduced, ReducerOptions},
    hal::DType,
};
use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
};

/// A reducer of a [`GradStore`] over the ranks of a group.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::{Init, Optimizer, SGD, VarBuilder, VarMap};
/// use fascicle_candle::{
///     AxisGroup, GradStoreReducer, NamedVars, ReducerOptions, Result,
///     library::{job, parallel::Context},
/// };
///
/// fn train(context: &Context) -> Result<f32> {
///     let map = VarMap::new();
///     let builder = VarBuilder::from_varmap(&map, DType::F32, &Device::Cpu);
///     let weight = builder.get_with_hints(1, "weight", Init::Const(0.0))?;
///
///     let group = AxisGroup::named(context, "data")?;
///     let vars = NamedVars::of_map(&map)?;
///     vars.broadcast(&group)?;
///     let mut reducer = GradStoreReducer::new(&group, vars, ReducerOptions::default())?;
///
///     let mut optimiser = SGD::new(reducer.own_vars(), 1.0)?;
///     let rows = Tensor::new(&[group.rank() as f32], &Device::Cpu)?;
///     let mut gradients = (&weight * rows)?.sum_all()?.backward()?;
///     reducer.reduce(&mut gradients)?;
///     optimiser.step(&gradients)?;
///     reducer.gather()?;
///     Ok(weight.squeeze(0)?.to_scalar()?)
/// }
///
/// # fn main() -> Result<()> {
/// let job = job().grid("data=4").expect("a grid");
/// assert_eq!(job.run(train)?, [-1.5; 4]);
/// # Ok(())
/// # }
/// ```
///
/// # Cost
/// No gradient of more than 16 KiB is copied: its vector leaves candle's storage, is reduced in place, and returns to it. Only a gradient
/// that views a part of its storage, or shares it with another variable's, is copied first; candle's own backward pass makes none of
/// these. Smaller gradients travel together in a tensor of the reducer's.
#[derive(Debug)]
pub struct GradStoreReducer {
    vars: NamedVars,
    reducer: GradientReducer,
    shards: Option<Rc<ParameterShards>>,
}

impl GradStoreReducer {
    /// A reducer of these variables' gradients. Collective.
    ///
    /// # Errors
    /// Those of [`GradientReducer::new`].
    pub fn new(
        group: &AxisGroup,
        vars: NamedVars,
        options: ReducerOptions,
    ) -> Result<GradStoreReducer> {
        let shards = options.shards.clone();
        Ok(GradStoreReducer {
            vars,
            reducer: GradientReducer::new(group, options)?,
            shards,
        })
    }

    /// The variables that this rank updates: with shards those that it owns, otherwise all. An optimiser of these holds no state for
    /// others.
    pub fn own_vars(&self) -> Vec<Var> {
        let is_mine = |name: &str| match &self.shards {
            Some(shards) => shards.is_mine(name),
            None => true,
        };
        let own = self.vars.iter().filter(|(name, _)| is_mine(name));
        own.map(|(_, var)| var.clone()).collect()
    }

    /// Replaces the gradients of the variables by their sums or averages over the group; with shards, only the owner of a variable
    /// keeps its gradient. Collective: every rank has gradients of the same variables. Gradients of other tensors stay as they are.
    ///
    /// A clone of a gradient shares its storage and so sees the reduced elements; where this rank does not receive them, or after an
    /// error, it sees zeros.
    ///
    /// # Errors
    /// [`hal::Error::Invalid`](library::hal::Error::Invalid) for gradients that are not floats on the CPU, and on every rank if ranks
    /// have gradients of other variables, with the first difference; those of the collectives. The gradients are then gone.
    pub fn reduce(&mut self, gradients: &mut GradStore) -> Result<()> {
        let mut taken = self.take(gradients)?;
        let outcome = self.exchange(gradients, &mut taken);
        let left = taken.values().try_for_each(|(_, gradient)| {
            let empty = CpuStorage::U8(Vec::new());
            put(gradient, zeros(gradient).unwrap_or(empty))
        });
        outcome.and(left)
    }

    /// Brings updated variables from their owners to all ranks; without shards it does nothing. Collective.
    ///
    /// # Errors
    /// Those of [`ParameterShards::gather`].
    pub fn gather(&self) -> Result<()> {
        match &self.shards {
            Some(shards) => self.vars.gather(shards),
            None => Ok(()),
        }
    }

    // Takes the gradients out of the store: each alone in its storage, and all of it.
    fn take(&self, gradients: &mut GradStore) -> Result<Taken> {
        let mut seen = HashSet::new();
        let mut taken = Vec::new();
        for (name, var) in self.vars.iter() {
            let Some(gradient) = gradients.remove(var) else {
                continue;
            };
            let (address, length) = place(name, &gradient)?;
            let is_alone = is_whole(&gradient, length) && (length == 0 || seen.insert(address));
            let gradient = if is_alone {
                gradient
            } else {
                gradient.force_contiguous()?
            };
            taken.push((name.to_owned(), (var.clone(), gradient)));
        }
        Ok(taken.into_iter().collect())
    }

    fn exchange(&mut self, gradients: &mut GradStore, taken: &mut Taken) -> Result<()> {
        for (name, _) in self.vars.iter() {
            if let Some((_, gradient)) = taken.get(name) {
                let storage = with_storage(name, gradient, |storage| Ok(emptied(storage)))?;
                with_floats!(
                    storage,
                    |vector, _kind| self.reducer.push(name, vector)?,
                    else unreachable!("floats: `take` has checked it")
                );
            }
        }
        for reduced in self.reducer.finish()? {
            let name = reduced.name().to_owned();
            let (var, gradient) = taken.remove(&name).expect("it was pushed above");
            put(&gradient, elements(reduced)?)?;
            gradients.insert(&var, gradient);
        }
        Ok(())
    }
}

/// By name the variables and their gradients, outside of the store.
type Taken = HashMap<String, (Var, Tensor)>;

// The elements of a storage, of which nothing is left.
fn emptied(storage: &mut CpuStorage) -> CpuStorage {
    let none =
        with_floats!(storage, |_vector, Kind| Kind(Vec::new()), else CpuStorage::U8(Vec::new()));
    std::mem::replace(storage, none)
}

fn put(gradient: &Tensor, elements: CpuStorage) -> Result<()> {
    with_storage("a gradient", gradient, |storage| {
        *storage = elements;
        Ok(())
    })
}

fn zeros(gradient: &Tensor) -> Option<CpuStorage> {
    let zeros = Tensor::zeros_like(gradient).ok()?;
    with_storage("zeros", &zeros, |storage| Ok(emptied(storage))).ok()
}

fn elements(reduced: Reduced) -> Result<CpuStorage> {
    Ok(match reduced.dtype() {
        DType::F64 => CpuStorage::F64(reduced.into_vec()?),
        DType::F32 => CpuStorage::F32(reduced.into_vec()?),
        DType::Bf16 => CpuStorage::BF16(reduced.into_vec()?),
        DType::F16 => CpuStorage::F16(reduced.into_vec()?),
        other => unreachable!("no gradient of {other} was pushed"),
    })
}
