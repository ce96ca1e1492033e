//! The tensors that flow between the segments of a model.

use crate::DTensor;
use std::borrow::Cow;
use tensor::{Error, Result};

/// One wire: a tensor that one segment makes and another uses, however far apart they are.
///
/// A tensor that several segments use has a route to each of them, all with one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Name; no two wires that enter a segment share it.
    pub name: Cow<'static, str>,
    /// The segment that makes it.
    pub from: usize,
    /// The later segment that uses it; the number of segments stands for the objective.
    pub to: usize,
}

impl Route {
    /// The wire of that name between these segments.
    pub fn new(name: impl Into<Cow<'static, str>>, from: usize, to: usize) -> Route {
        Route {
            name: name.into(),
            from,
            to,
        }
    }
}

/// Tensors by name: those that enter a segment, or those that leave it.
#[derive(Clone, Debug, Default)]
pub struct Wires(Vec<(Cow<'static, str>, DTensor)>);

impl Wires {
    /// No wire.
    pub fn new() -> Wires {
        Wires::default()
    }

    /// One wire.
    pub fn of(name: impl Into<Cow<'static, str>>, tensor: DTensor) -> Wires {
        Wires::new().with(name, tensor)
    }

    /// Adds a wire; replaces one with the same name.
    pub fn with(mut self, name: impl Into<Cow<'static, str>>, tensor: DTensor) -> Wires {
        let name = name.into();
        self.0.retain(|(other, _)| *other != name);
        self.0.push((name, tensor));
        self
    }

    /// Takes the wire with that name.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the existing names.
    pub fn take(&mut self, name: &str) -> Result<DTensor> {
        match self.0.iter().position(|(other, _)| other == name) {
            Some(index) => Ok(self.0.remove(index).1),
            None => {
                let names: Vec<&str> = self.0.iter().map(|(name, _)| &**name).collect();
                let found = format!("no wire {name} among [{}]", names.join(", "));
                Err(Error::invalid(
                    "wires",
                    found,
                    "a route of that name to this segment",
                ))
            }
        }
    }

    /// The wire of that name.
    pub fn get(&self, name: &str) -> Option<&DTensor> {
        self.iter()
            .find(|(other, _)| *other == name)
            .map(|(_, wire)| wire)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All wires, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &DTensor)> {
        self.0.iter().map(|(name, tensor)| (&**name, tensor))
    }
}

impl IntoIterator for Wires {
    type Item = (Cow<'static, str>, DTensor);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
