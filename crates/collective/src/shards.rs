//! Parameters divided over replicas, for an optimiser of which each rank runs a part (ZeRO-1).

use crate::AxisGroup;
use hal::Counts;
use std::collections::{BTreeMap, HashMap};
use tensor::{Error, Result, Scalar, Tensor};

/// For each parameter the rank that updates it, and alone needs its gradient and the optimiser's state for it.
///
/// Complete parameters have owners, so that any framework's optimiser can update them. The largest are dealt out first, each to the
/// rank with the fewest elements so far, so a rank has at most the mean and one parameter more.
///
/// # Source
/// ZeRO (Rajbhandari et al., arXiv:1910.02054), stage 1; Graham's rule of the longest first (1969).
#[derive(Debug)]
pub struct ParameterShards {
    group: AxisGroup,
    // Owner and length by name.
    owners: HashMap<String, (usize, usize)>,
}

impl ParameterShards {
    /// Divides parameters with these names and numbers of elements over the ranks of a group, in the same way on every rank.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name that occurs twice.
    pub fn new<'a>(
        group: &AxisGroup,
        parameters: impl IntoIterator<Item = (&'a str, usize)>,
    ) -> Result<ParameterShards> {
        // By name: the order of a framework's maps may differ from rank to rank.
        let mut lengths = BTreeMap::new();
        for (name, length) in parameters {
            if lengths.insert(name, length).is_some() {
                let found = format!("two named {name}");
                return Err(Error::invalid("parameters", found, "a name for each"));
            }
        }
        let mut by_length: Vec<(&str, usize)> = lengths.into_iter().collect();
        by_length.sort_by_key(|(_, length)| std::cmp::Reverse(*length));
        let mut loads = vec![0; group.size()];
        let mut owners = HashMap::new();
        for (name, length) in by_length {
            let owner = (0..loads.len())
                .min_by_key(|&rank| loads[rank])
                .unwrap_or(0);
            loads[owner] += length;
            owners.insert(name.to_owned(), (owner, length));
        }
        let group = group.clone();
        Ok(ParameterShards { group, owners })
    }

    /// The rank of the group that updates a parameter; `None` for an unknown name.
    pub fn owner(&self, name: &str) -> Option<usize> {
        self.owners.get(name).map(|(owner, _)| *owner)
    }

    /// Whether this rank updates a parameter.
    pub fn is_mine(&self, name: &str) -> bool {
        self.owner(name) == Some(self.group.rank())
    }

    /// Brings updated parameters from their owners to all ranks, in place. Every rank names the same ones in the same order.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unknown name or another length; otherwise as [`AxisGroup::all_reduce`].
    pub fn gather<T: Scalar>(&self, parameters: &mut [(&str, &mut [T])]) -> Result<()> {
        let device = self.group.context().device();
        for (name, elements) in parameters {
            let owner = self.check(name, elements.len())?;
            Tensor::lend_mut(device, &[elements.len()], elements, |tensor| {
                self.group.broadcast_on(&device.compute(), tensor, owner)
            })?;
        }
        Ok(())
    }

    /// The owner of a parameter of this length.
    pub(crate) fn check(&self, name: &str, length: usize) -> Result<usize> {
        match self.owners.get(name) {
            Some(&(owner, needed)) if needed == length => Ok(owner),
            Some((_, needed)) => Err(Error::invalid(
                format!("parameter {name}"),
                format!("{length} elements"),
                format!("{needed}, as were divided"),
            )),
            None => Err(Error::invalid(
                "ParameterShards",
                format!("parameter {name}"),
                "one of those that were divided",
            )),
        }
    }

    /// Each rank's part of a gradient: its owner's is all of it, and that of the others is empty. With this rank's part of the tensor.
    pub(crate) fn parts(&self, name: &str, gradient: &Tensor) -> Result<(Tensor, Counts)> {
        let length = gradient.num_elements();
        let mut counts = vec![0; self.group.size()];
        counts[self.check(name, length)?] = length;
        let own = gradient.rows(0, counts[self.group.rank()])?;
        Ok((own, Counts::Uneven(counts)))
    }
}
