//! Bytes between the hosts of a group's ranks.

use crate::Result;
use std::fmt;

/// Exchanges small byte strings between the ranks of one group on the host, beside the devices' collectives.
///
/// It carries ids of communicators, the comparisons of checked mode, and decisions that a group must share. All
/// calls are collective: every rank of the group makes them, in the same order.
pub trait Exchange: Send + Sync + fmt::Debug {
    /// Index of this rank within the group.
    fn rank(&self) -> usize;

    /// Number of ranks in the group.
    fn size(&self) -> usize;

    /// Whether this process contributes for `rank` of the group: for itself, or for a rank that it stands for.
    ///
    /// A rank stands for others only where a world has more ranks than run. Work that one rank of a group does
    /// for all is done by the rank that stands for it.
    fn stands_for(&self, rank: usize) -> bool {
        rank == self.rank()
    }

    /// Returns the bytes of each rank to every rank, in the order of ranks.
    ///
    /// # Errors
    /// [`Error::Timeout`](crate::Error::Timeout) naming the ranks that did not arrive;
    /// [`Error::Aborted`](crate::Error::Aborted); [`Error::Vendor`](crate::Error::Vendor) from the network.
    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>>;

    /// Returns the numbers of each rank to every rank, in the order of ranks. A rank may pass more than another.
    ///
    /// # Errors
    /// As [`all_gather`](Exchange::all_gather).
    fn all_gather_numbers(&self, numbers: &[u64]) -> Result<Vec<Vec<u64>>> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|own| own.to_le_bytes()).collect();
        let numbers = |bytes: Vec<u8>| {
            let numbers = bytes.as_chunks::<8>().0.iter();
            numbers.map(|bytes| u64::from_le_bytes(*bytes)).collect()
        };
        let all = self.all_gather(&bytes)?;
        Ok(all.into_iter().map(numbers).collect())
    }

    /// Returns the bytes of `root` to every rank; what the others pass is ignored.
    ///
    /// In a group of several ranks the root waits for none of them, because it may have work to do before they
    /// can arrive.
    ///
    /// # Errors
    /// As [`all_gather`](Exchange::all_gather).
    fn broadcast(&self, root: usize, bytes: &[u8]) -> Result<Vec<u8>> {
        let mine = if self.rank() == root { bytes } else { &[] };
        Ok(self.all_gather(mine)?.swap_remove(root))
    }

    /// Returns once every rank has arrived.
    ///
    /// # Errors
    /// As [`all_gather`](Exchange::all_gather).
    fn barrier(&self) -> Result<()> {
        self.all_gather(&[]).map(drop)
    }

    /// Whether any rank passes true; the same answer on all ranks.
    ///
    /// # Errors
    /// As [`all_gather`](Exchange::all_gather).
    fn any(&self, mine: bool) -> Result<bool> {
        Ok(self
            .all_gather(&[u8::from(mine)])?
            .iter()
            .any(|bytes| bytes == &[1]))
    }
}
