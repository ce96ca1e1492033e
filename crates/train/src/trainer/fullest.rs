//! What all ranks agree on after a step: whether one wants to stop, and how much memory the fullest one uses.

use crate::Result;
use bootstrap::World;
use tensor::Device;

/// Bytes of the rank whose tensors hold the most; the rank may be another one for each number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FullestRank {
    /// Held now.
    pub in_use: u64,
    /// The most that a rank held at one time since its device was opened.
    pub peak: u64,
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
        let own = [u64::from(wants_stop), held.in_use as u64, held.peak as u64];
        let (mut stops, mut fullest) = (false, FullestRank::default());
        for numbers in world.everyone().all_gather_numbers(&own)? {
            let number = |at: usize| numbers.get(at).copied().unwrap_or_default();
            stops |= number(0) > 0;
            fullest.in_use = fullest.in_use.max(number(1));
            fullest.peak = fullest.peak.max(number(2));
        }
        Ok((stops, fullest))
    }
}
