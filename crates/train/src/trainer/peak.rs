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
    pub by_kind: [usize; 6],
    /// The most bytes of the host's memory that copies for checkpoints took on any one rank, besides the tensors.
    pub snapshot_bytes: usize,
}

impl PeakMemory {
    /// The largest peak of all ranks. Collective: every rank calls it with its device and the bytes of its copies for
    /// checkpoints, and all return the same.
    ///
    /// # Errors
    /// [`Error::Parallel`](crate::Error::Parallel) from the exchange.
    pub fn of_all(world: &World, device: &Device, snapshot_bytes: usize) -> Result<PeakMemory> {
        let own = device.memory_use().at_peak();
        let own = own.into_iter().chain([snapshot_bytes]);
        let own: Vec<u64> = own.map(|bytes| bytes as u64).collect();
        let all = world.everyone().all_gather_numbers(&own)?;
        Ok(PeakMemory::largest(all.iter().map(Vec::as_slice)))
    }

    /// The largest of the ranks' peaks, each as the bytes of its kinds and, if they are known, of copies for checkpoints.
    pub(super) fn largest<'a>(ranks: impl Iterator<Item = &'a [u64]>) -> PeakMemory {
        let peaks = ranks
            .enumerate()
            .map(|(rank, numbers)| PeakMemory::of_rank(rank, numbers));
        let larger = |most: PeakMemory, next: PeakMemory| {
            let snapshot_bytes = most.snapshot_bytes.max(next.snapshot_bytes);
            let most = if next.bytes > most.bytes { next } else { most };
            PeakMemory {
                snapshot_bytes,
                ..most
            }
        };
        peaks.reduce(larger).unwrap_or_default()
    }

    fn of_rank(rank: usize, numbers: &[u64]) -> PeakMemory {
        let number = |at: usize| numbers.get(at).copied().unwrap_or_default() as usize;
        let by_kind: [usize; 6] = std::array::from_fn(number);
        PeakMemory {
            rank,
            bytes: by_kind.iter().sum(),
            by_kind,
            snapshot_bytes: number(by_kind.len()),
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
