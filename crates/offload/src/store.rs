//! A list of pieces, and where they are.

use crate::{
    Disk, Visit,
    file::PieceFile,
    walk::{self, NUM_BUFFERS, len},
};
use hal::{Device, Error, HostBlock, Result, error::Bytes};
use std::{ops::Range, path::PathBuf, sync::Arc};

/// Where the pieces of a store are.
#[derive(Clone, Debug)]
pub enum Place {
    /// In memory of the host.
    Host,
    /// In a file of this folder.
    Files {
        /// The file system.
        disk: Arc<dyn Disk>,
        /// The folder, which is made where it does not exist.
        folder: PathBuf,
    },
    /// Nowhere: every piece is zeros. For devices whose buffers hold no values.
    Nowhere,
}

/// Pieces of state, each a run of bytes that is read and written whole, and initially zeros.
#[derive(Debug)]
pub struct Store {
    owner: String,
    place: Place,
    // The bytes of each piece, one after the other.
    places: Vec<Range<u64>>,
    backing: Backing,
    // Whether a walk has ended with an error: some pieces are changed, and others not.
    is_torn: bool,
}

#[derive(Debug)]
enum Backing {
    // Until all pieces are known.
    None,
    Memory(HostBlock),
    File {
        file: PieceFile,
        buffers: Vec<Vec<u8>>,
    },
    Zeros(Vec<u8>),
}

impl Store {
    /// An empty store; `owner` names it in errors.
    pub fn new(owner: impl Into<String>, place: Place) -> Store {
        Store {
            owner: owner.into(),
            place,
            places: Vec::new(),
            backing: Backing::None,
            is_torn: false,
        }
    }

    /// Adds a piece, and returns its number. All pieces are added before [`reserve`](Store::reserve).
    pub fn add(&mut self, bytes: usize) -> usize {
        let start = self.num_bytes();
        self.places.push(start..start + bytes as u64);
        self.places.len() - 1
    }

    /// Takes the memory, or the space on the disk, of all pieces. Memory is locked for `device`, the one that its pieces come
    /// to, if it [can](Device::locks_pages).
    ///
    /// # Errors
    /// [`Error::Invalid`] if the host or the disk lacks it; those of the device.
    pub fn reserve(&mut self, device: &dyn Device) -> Result<()> {
        let largest = self.places.iter().map(len).max().unwrap_or(0);
        self.backing = match &self.place {
            Place::Host => Backing::Memory(block(&self.owner, self.num_bytes() as usize, device)?),
            Place::Nowhere => Backing::Zeros(zeros(&self.owner, largest)?),
            Place::Files { disk, folder } => Backing::File {
                file: PieceFile::create((&**disk, folder), &self.owner, &self.places)?,
                buffers: (0..NUM_BUFFERS)
                    .map(|_| zeros(&self.owner, largest))
                    .collect::<Result<_>>()?,
            },
        };
        Ok(())
    }

    /// Bytes of all pieces.
    pub fn num_bytes(&self) -> u64 {
        self.places.last().map_or(0, |last| last.end)
    }

    /// Bytes of the host's memory that the store holds: all pieces, or the buffers of a file.
    #[cfg(test)]
    pub(crate) fn host_bytes(&self) -> usize {
        match &self.backing {
            Backing::None => 0,
            Backing::Memory(all) => all.len(),
            Backing::File { buffers, .. } => buffers.iter().map(Vec::capacity).sum(),
            Backing::Zeros(largest) => largest.len(),
        }
    }

    /// Reads a piece.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the disk fails, and for bytes that are not those last written.
    ///
    /// # Panics
    /// If the store is not [reserved](Store::reserve), or has no such piece.
    pub fn read(&self, piece: usize) -> Result<Vec<u8>> {
        let place = &self.places[piece];
        match &self.backing {
            Backing::None => unreachable!("a bug: a store is reserved before it is read"),
            Backing::Memory(all) => Ok(all[range(place)].to_vec()),
            Backing::Zeros(_) => zeros(&self.owner, len(place)),
            Backing::File { file, .. } => {
                let mut bytes = zeros(&self.owner, len(place))?;
                file.read(piece, place.start, &mut bytes)?;
                Ok(bytes)
            }
        }
    }

    /// Writes a piece.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the disk fails.
    ///
    /// # Panics
    /// As [`read`](Store::read), and if `bytes` are not as many as the piece has.
    pub fn write(&mut self, piece: usize, bytes: &[u8]) -> Result<()> {
        let place = &self.places[piece];
        match &mut self.backing {
            Backing::None => unreachable!("a bug: a store is reserved before it is written"),
            Backing::Memory(all) => {
                all[range(place)].copy_from_slice(bytes);
                Ok(())
            }
            Backing::Zeros(_) => Ok(()),
            Backing::File { file, .. } => {
                assert_eq!(bytes.len(), len(place), "a bug: a piece is written whole");
                file.write(piece, place.start, bytes)
            }
        }
    }

    /// Passes these pieces to `visitor`, in this order, and stores them as it returns them.
    ///
    /// # Errors
    /// The first of the visitor's and the disk's; [`Error::Invalid`] after a walk that has ended with one.
    ///
    /// # Panics
    /// As [`read`](Store::read).
    pub fn walk<E: From<Error>>(
        &mut self,
        pieces: &[usize],
        visitor: &mut dyn Visit<E>,
    ) -> Result<(), E> {
        if self.is_torn {
            let found = "pieces of which an update that failed has changed a part";
            let needed = "state loaded from a checkpoint into a new store";
            return Err(Error::invalid(&self.owner, found, needed).into());
        }
        // Also if the visitor panics.
        self.is_torn = true;
        let places = &self.places;
        let walked = match &mut self.backing {
            Backing::None => unreachable!("a bug: a store is reserved before it is walked"),
            Backing::File { file, buffers } => walk::walk((file, places), pieces, buffers, visitor),
            Backing::Memory(all) => in_memory(pieces, visitor, all, |piece| range(&places[piece])),
            Backing::Zeros(all) => in_memory(pieces, visitor, all, |piece| 0..len(&places[piece])),
        };
        self.is_torn = walked.is_err();
        walked
    }
}

fn in_memory<E>(
    pieces: &[usize],
    visitor: &mut dyn Visit<E>,
    all: &mut [u8],
    range: impl Fn(usize) -> Range<usize>,
) -> Result<(), E> {
    let mut before = None;
    for &piece in pieces {
        visitor.load(piece, &all[range(piece)])?;
        if let Some(before) = before.replace(piece) {
            visitor.unload(before, &mut all[range(before)])?;
        }
    }
    match before {
        Some(last) => visitor.unload(last, &mut all[range(last)]),
        None => Ok(()),
    }
}

fn range(place: &Range<u64>) -> Range<usize> {
    place.start as usize..place.end as usize
}

/// Zeros in memory of the host, locked for a device.
pub(crate) fn block(owner: &str, bytes: usize, device: &dyn Device) -> Result<HostBlock> {
    let mut block = HostBlock::zeros(bytes).ok_or_else(|| no_room(owner, bytes))?;
    block.lock(device)?;
    Ok(block)
}

pub(crate) fn zeros(owner: &str, bytes: usize) -> Result<Vec<u8>> {
    let mut zeros = Vec::new();
    let reserved = zeros.try_reserve_exact(bytes);
    reserved.map_err(|_| no_room(owner, bytes))?;
    zeros.resize(bytes, 0);
    Ok(zeros)
}

fn no_room(owner: &str, bytes: usize) -> Error {
    let found = format!("a host without room for {bytes} bytes");
    let needed = Bytes(bytes).to_string();
    Error::invalid(format!("memory of {owner}"), found, needed)
}
