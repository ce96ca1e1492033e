//! The peak memory of a run, by purpose.

use crate::Result;
use bootstrap::World;
use serde::{Deserialize, Serialize};
use tensor::{Device, MemoryKind};

/// The most that tensors held at one time, on the rank with the highest peak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeakMemory {
    /// That rank; if there are several, the first.
    pub rank: usize,
    /// Bytes in all.
    pub bytes: usize,
    /// The peak by purpose, in the order of [`MemoryKind::ALL`].
    pub by_kind: [usize; 5],
}

impl PeakMemory {
    /// The largest peak of all ranks. Collective: every rank calls it with its device, and all return the same.
    ///
    /// # Errors
    /// [`Error::Parallel`](crate::Error::Parallel) from the exchange.
    pub fn of_all(world: &World, device: &Device) -> Result<PeakMemory> {
        let own = device
            .memory_use()
            .at_peak()
            .map(|bytes| (bytes as u64).to_le_bytes());
        let all = world.everyone().all_gather(own.as_flattened())?;
        let peaks = all
            .iter()
            .enumerate()
            .map(|(rank, bytes)| PeakMemory::decode(rank, bytes));
        Ok(peaks
            .reduce(|most, next| if next.bytes > most.bytes { next } else { most })
            .unwrap_or_default())
    }

    fn decode(rank: usize, bytes: &[u8]) -> PeakMemory {
        let (numbers, _) = bytes.as_chunks::<8>();
        let mut by_kind = [0; 5];
        by_kind
            .iter_mut()
            .zip(numbers)
            .for_each(|(own, bytes)| *own = u64::from_le_bytes(*bytes) as usize);
        PeakMemory {
            rank,
            bytes: by_kind.iter().sum(),
            by_kind,
        }
    }

    /// The kinds with any bytes, by name.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let kinds = MemoryKind::ALL.into_iter().zip(self.by_kind);
        kinds
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(kind, bytes)| (kind.name(), bytes))
    }
}
