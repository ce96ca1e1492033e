//! What all ranks agree on after a step: whether one wants to stop, and how much memory the fullest one uses.

use super::PeakMemory;
use crate::Result;
use bootstrap::World;
use tensor::Device;

/// The memory of the rank whose tensors hold the most; the rank may be another one for each number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FullestRank {
    /// Bytes held now.
    pub in_use: u64,
    /// The most that a rank held at one time since its device was opened, without copies for checkpoints.
    pub peak: PeakMemory,
}

impl FullestRank {
    /// Whether any rank wants to stop, and the memory of the fullest one, in a single exchange. Collective.
    ///
    /// # Errors
    /// [`Error::Parallel`](crate::Error::Parallel) from the exchange.
    pub(super) fn agree(
        world: &World,
        device: &Device,
        wants_stop: bool,
    ) -> Result<(bool, FullestRank)> {
        let held = device.memory_use();
        let own = [u64::from(wants_stop), held.in_use as u64];
        let peak = held.at_peak().map(|bytes| bytes as u64);
        let own: Vec<u64> = own.into_iter().chain(peak).collect();
        let all = world.everyone().all_gather_numbers(&own)?;
        let numbers = |at: usize| {
            let of_rank = move |numbers: &Vec<u64>| numbers.get(at).copied().unwrap_or_default();
            all.iter().map(of_rank)
        };
        let peaks = all.iter().map(|numbers| numbers.get(2..).unwrap_or(&[]));
        Ok((
            numbers(0).any(|wants_stop| wants_stop > 0),
            FullestRank {
                in_use: numbers(1).max().unwrap_or_default(),
                peak: PeakMemory::largest(peaks),
            },
        ))
    }
}
