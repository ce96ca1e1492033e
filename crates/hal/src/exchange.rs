//! Bytes between the hosts of a group's ranks.

use crate::Result;
use std::fmt;

/// Exchanges small byte strings between the ranks of one group on the host, beside the devices' collectives.
///
/// Ids of communicators travel on it, as do the checked mode's comparisons and decisions that a group must share. All
/// calls are collective: every rank of the group makes them, in the same order.
pub trait Exchange: Send + Sync + fmt::Debug {
    /// Index of this rank within the group.
    fn rank(&self) -> usize;

    /// Number of ranks in the group.
    fn size(&self) -> usize;

    /// Whether what this process gives counts as given by `rank` of the group: its own, or one it stands for.
    ///
    /// Only where a world is larger than what runs does a rank stand for others. Work that one rank of a group does for
    /// all is done by the one that stands for it.
    fn stands_for(&self, rank: usize) -> bool {
        rank == self.rank()
    }

    /// Gives every rank the bytes of each, in the order of ranks.
    ///
    /// # Errors
    /// [`Error::Timeout`](crate::Error::Timeout) naming the ranks that did not come; [`Error::Aborted`](crate::Error::Aborted).
    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>>;

    /// Gives every rank the bytes of `root`; what the others pass is ignored.
    ///
    /// Between several ranks the root waits for none of them: it may have work to do before they can come.
    ///
    /// # Errors
    /// As [`all_gather`](Exchange::all_gather).
    fn broadcast(&self, root: usize, bytes: &[u8]) -> Result<Vec<u8>> {
        let mine = if self.rank() == root { bytes } else { &[] };
        Ok(self.all_gather(mine)?.swap_remove(root))
    }

    /// Returns once every rank has come.
    ///
    /// # Errors
    /// As [`all_gather`](Exchange::all_gather).
    fn barrier(&self) -> Result<()> {
        self.all_gather(&[]).map(drop)
    }

    /// Whether any rank says so; the same answer on all.
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
