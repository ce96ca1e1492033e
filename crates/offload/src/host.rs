//! Pieces in memory of the host.

use crate::{
    extents::Extents,
    store::{block, zeros},
    walk::len,
};
use hal::{Device, HostBlock, Result};
use std::collections::BTreeMap;

/// Pieces of any length as they come and go: in one block that was reserved for them, and each in memory of its own behind it.
#[derive(Debug, Default)]
pub(crate) struct HostPieces {
    reserved: Option<HostBlock>,
    extents: Extents,
    // Those whose places the block does not reach, by their numbers; a number that is used again has its memory.
    grown: BTreeMap<usize, Vec<u8>>,
}

impl HostPieces {
    /// Takes the memory for places of this many bytes, locked for a device. Once there is a piece, nothing is done.
    ///
    /// # Errors
    /// [`Error::Invalid`](hal::Error::Invalid) if the host lacks it; those of the device.
    pub(crate) fn reserve(&mut self, owner: &str, bytes: u64, device: &dyn Device) -> Result<()> {
        if self.extents.end() == 0 {
            self.reserved = Some(block(owner, bytes as usize, device)?);
        }
        Ok(())
    }

    /// The number of a new piece.
    ///
    /// # Errors
    /// [`Error::Invalid`](hal::Error::Invalid) if the host lacks the memory.
    pub(crate) fn take(&mut self, owner: &str, bytes: usize) -> Result<usize> {
        let piece = self.extents.take(bytes);
        let reserved = self.reserved.as_ref().map_or(0, |block| block.len() as u64);
        if self.extents.place(piece).end > reserved && !self.grown.contains_key(&piece) {
            let memory = zeros(owner, bytes).inspect_err(|_| self.extents.release(piece))?;
            self.grown.insert(piece, memory);
        }
        Ok(piece)
    }

    /// The bytes of a piece.
    pub(crate) fn bytes_mut(&mut self, piece: usize) -> &mut [u8] {
        let place = self.extents.place(piece);
        match (self.grown.get_mut(&piece), &mut self.reserved) {
            (Some(memory), _) => memory,
            (None, Some(block)) => &mut block[place.start as usize..][..len(&place)],
            (None, None) => unreachable!("a bug: a piece has memory from its beginning on"),
        }
    }

    /// Frees the place of a piece.
    pub(crate) fn release(&mut self, piece: usize) {
        self.extents.release(piece);
    }

    /// The end of the last place.
    pub(crate) fn num_bytes(&self) -> u64 {
        self.extents.end()
    }
}
