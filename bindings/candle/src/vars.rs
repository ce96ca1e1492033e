//! Parameters with their names.

use crate::{
    Result,
    storage::{is_whole, place, with_floats, with_storage},
};
use candle_core::Var;
use candle_nn::VarMap;
use library::{
    collective::{AxisGroup, ParameterShards},
    hal::Error,
};
use std::{rc::Rc, sync::PoisonError};

/// A model's parameters, in the order of their names, which is thus the same on all ranks.
#[derive(Clone, Debug)]
pub struct NamedVars {
    vars: Vec<(String, Var)>,
}

impl NamedVars {
    /// The variables of a map.
    ///
    /// # Errors
    /// As [`new`](NamedVars::new).
    pub fn of_map(map: &VarMap) -> Result<NamedVars> {
        let data = map.data().lock().unwrap_or_else(PoisonError::into_inner);
        NamedVars::new(data.iter().map(|(name, var)| (name.clone(), var.clone())))
    }

    /// These variables.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name that occurs twice, and for a variable that is not of floats, contiguous, and on the CPU.
    pub fn new(vars: impl IntoIterator<Item = (String, Var)>) -> Result<NamedVars> {
        let mut vars: Vec<(String, Var)> = vars.into_iter().collect();
        vars.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (name, var) in &vars {
            let (_, length) = place(name, var)?;
            if !is_whole(var, length) {
                let found = "a variable that views a part of its memory";
                return Err(Error::invalid(name, found, "a contiguous one").into());
            }
        }
        if let Some(twice) = vars.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let found = format!("two named {}", twice[0].0);
            return Err(Error::invalid("variables", found, "a name for each").into());
        }
        Ok(NamedVars { vars })
    }

    /// Names and variables.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Var)> {
        self.vars.iter().map(|(name, var)| (name.as_str(), var))
    }

    /// Divides the parameters over the ranks of a group, for [`ReducerOptions::shards`](crate::ReducerOptions::shards).
    ///
    /// # Errors
    /// Those of [`ParameterShards::new`].
    pub fn shards(&self, group: &AxisGroup) -> Result<Rc<ParameterShards>> {
        let lengths = self.iter().map(|(name, var)| (name, var.elem_count()));
        Ok(Rc::new(ParameterShards::new(group, lengths)?))
    }

    /// Gives all ranks of a group the values of its rank 0, in the variables' own memory. Collective.
    ///
    /// candle cannot seed its random numbers on the CPU, so that replicas would start from other values.
    ///
    /// # Errors
    /// Those of [`AxisGroup::broadcast`].
    pub fn broadcast(&self, group: &AxisGroup) -> Result<()> {
        for (name, var) in self.iter() {
            with_storage(name, var, |storage| {
                with_floats!(
                    storage,
                    |elements, _kind| Ok(group.broadcast(elements, 0)?),
                    else unreachable!("floats: `new` has checked it")
                )
            })?;
        }
        Ok(())
    }

    /// Brings parameters from their owners to all ranks, in the variables' own memory. Collective.
    pub(crate) fn gather(&self, shards: &ParameterShards) -> Result<()> {
        for (name, var) in self.iter() {
            with_storage(name, var, |storage| {
                with_floats!(
                    storage,
                    |elements, _kind| Ok(shards.gather(&mut [(name, elements.as_mut_slice())])?),
                    else unreachable!("floats: `new` has checked it")
                )
            })?;
        }
        Ok(())
    }
}
