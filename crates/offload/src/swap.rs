//! Runs of bytes that leave for a while and come back: once, such as what a backward pass will need, or again and again.

use crate::{
    Place,
    behind::{Behind, Fetched},
    extents::Extents,
    host::HostPieces,
    store::zeros,
};
use hal::{Device, Result};
use std::ops::Range;

/// Memory of the host, or a file, for runs of any length. A run moves in pieces, and its place is used again once it is back.
#[derive(Debug)]
pub struct Swap {
    owner: String,
    piece_bytes: usize,
    backing: Backing,
}

#[derive(Debug)]
enum Backing {
    Memory(HostPieces),
    File(Behind),
    // Where no values are stored, one buffer stands for all pieces; places are those of a file.
    Nowhere(Vec<u8>, Extents),
}

/// A run that is away. It can be read and rewritten until it comes back, or is [discarded](Swap::discard).
#[derive(Debug)]
pub struct Parked {
    bytes: usize,
    pieces: Pieces,
}

#[derive(Debug)]
enum Pieces {
    Memory(Vec<usize>),
    File(Vec<FilePiece>),
    Nowhere(Vec<usize>),
}

#[derive(Debug)]
struct FilePiece {
    number: usize,
    fetched: Option<Fetched>,
}

/// Takes the place of some bytes of a run, and their buffer.
pub type Fill<'a> = dyn FnMut(Range<usize>, &mut [u8]) -> Result<()> + 'a;

/// Takes the place of some bytes of a run, and the bytes.
pub type Take<'a> = dyn FnMut(Range<usize>, &[u8]) -> Result<()> + 'a;

impl Swap {
    /// An empty swap whose runs move in pieces of at most `piece_bytes`; `owner` names it in errors.
    ///
    /// # Errors
    /// [`Error::Invalid`](hal::Error::Invalid) if its file cannot be made.
    pub fn new(owner: impl Into<String>, place: &Place, piece_bytes: usize) -> Result<Swap> {
        let owner = owner.into();
        let backing = match place {
            Place::Host => Backing::Memory(HostPieces::default()),
            Place::Files { disk, folder } => {
                Backing::File(Behind::create((&**disk, folder), &owner)?)
            }
            Place::Nowhere => Backing::Nowhere(Vec::new(), Extents::default()),
        };
        Ok(Swap {
            owner,
            piece_bytes: piece_bytes.max(1),
            backing,
        })
    }

    /// Parks a run of this many bytes, which `fill` provides piece by piece. A file is written behind: with as many pieces still
    /// to be written as there are buffers, this waits for the disk.
    ///
    /// # Errors
    /// Those of `fill`; [`Error::Invalid`](hal::Error::Invalid) if the host or the disk has no room, and if an earlier write has
    /// failed.
    pub fn park(&mut self, bytes: usize, fill: &mut Fill<'_>) -> Result<Parked> {
        let ranges = ranges(bytes, self.piece_bytes);
        let pieces = match &mut self.backing {
            Backing::Memory(host) => {
                let mut pieces = Vec::with_capacity(ranges.len());
                for range in ranges {
                    let piece = host.take(&self.owner, range.len())?;
                    let filled = fill(range, host.bytes_mut(piece));
                    filled.inspect_err(|_| host.release(piece))?;
                    pieces.push(piece);
                }
                Pieces::Memory(pieces)
            }
            Backing::File(file) => {
                let mut write = |range: Range<usize>| {
                    let number = file.write(range.len(), |bytes| fill(range, bytes))?;
                    let fetched = None;
                    Ok(FilePiece { number, fetched })
                };
                Pieces::File(ranges.map(&mut write).collect::<Result<_>>()?)
            }
            Backing::Nowhere(any, extents) => {
                let mut pieces = Vec::with_capacity(ranges.len());
                for range in ranges {
                    fill(range.clone(), stand_in(&self.owner, any, range.len())?)?;
                    pieces.push(extents.take(range.len()));
                }
                Pieces::Nowhere(pieces)
            }
        };
        Ok(Parked { bytes, pieces })
    }

    /// Begins to read a run from its file, if it is in one.
    ///
    /// # Errors
    /// [`Error::Invalid`](hal::Error::Invalid) if the host has no room for it.
    pub fn fetch(&mut self, parked: &mut Parked) -> Result<()> {
        let (Backing::File(file), Pieces::File(pieces)) = (&mut self.backing, &mut parked.pieces)
        else {
            return Ok(());
        };
        for piece in pieces.iter_mut().filter(|piece| piece.fetched.is_none()) {
            piece.fetched = Some(file.fetch(piece.number)?);
        }
        Ok(())
    }

    /// Brings a run back: `take` is given its pieces in their order.
    ///
    /// # Errors
    /// As [`read`](Swap::read).
    pub fn unpark(&mut self, mut parked: Parked, take: &mut Take<'_>) -> Result<()> {
        self.read(&mut parked, take)?;
        self.discard(parked);
        Ok(())
    }

    /// Reads a run, which stays where it is: `take` is given its pieces in their order.
    ///
    /// # Errors
    /// Those of `take`; [`Error::Invalid`](hal::Error::Invalid) if the disk fails, for bytes that are not those written, and if
    /// the host has no room for them.
    pub fn read(&mut self, parked: &mut Parked, take: &mut Take<'_>) -> Result<()> {
        self.fetch(parked)?;
        let ranges = ranges(parked.bytes, self.piece_bytes);
        match (&mut self.backing, &mut parked.pieces) {
            (Backing::Memory(host), Pieces::Memory(pieces)) => {
                for (range, piece) in ranges.zip(pieces) {
                    take(range, host.bytes_mut(*piece))?;
                }
            }
            (Backing::File(file), Pieces::File(pieces)) => {
                for (range, piece) in ranges.zip(pieces) {
                    if let Some(fetched) = piece.fetched.take() {
                        let bytes = file.fetched(fetched)?;
                        take(range, &bytes)?;
                        file.keep(bytes);
                    }
                }
            }
            (Backing::Nowhere(any, _), Pieces::Nowhere(_)) => {
                for range in ranges {
                    take(range.clone(), stand_in(&self.owner, any, range.len())?)?;
                }
            }
            _ => unreachable!("a bug: a run comes back from where it was parked"),
        }
        Ok(())
    }

    /// Puts other bytes in the place of a run, as [`park`](Swap::park) does.
    ///
    /// # Errors
    /// As there. The run is then of no use.
    pub fn rewrite(&mut self, parked: &mut Parked, fill: &mut Fill<'_>) -> Result<()> {
        let ranges = ranges(parked.bytes, self.piece_bytes);
        match (&mut self.backing, &mut parked.pieces) {
            (Backing::Memory(host), Pieces::Memory(pieces)) => {
                for (range, piece) in ranges.zip(pieces) {
                    fill(range, host.bytes_mut(*piece))?;
                }
            }
            (Backing::File(file), Pieces::File(pieces)) => {
                for (range, piece) in ranges.zip(pieces) {
                    // What has been read of it is no longer the run.
                    piece.fetched = None;
                    file.rewrite(piece.number, |bytes| fill(range, bytes))?;
                }
            }
            (Backing::Nowhere(any, _), Pieces::Nowhere(_)) => {
                for range in ranges {
                    fill(range.clone(), stand_in(&self.owner, any, range.len())?)?;
                }
            }
            _ => unreachable!("a bug: a run is rewritten where it was parked"),
        }
        Ok(())
    }

    /// Forgets a run.
    pub fn discard(&mut self, parked: Parked) {
        match (&mut self.backing, parked.pieces) {
            (Backing::Memory(host), Pieces::Memory(pieces)) => {
                pieces.into_iter().for_each(|piece| host.release(piece));
            }
            (Backing::File(file), Pieces::File(pieces)) => {
                for piece in pieces {
                    file.release(piece.number);
                }
            }
            (Backing::Nowhere(_, extents), Pieces::Nowhere(pieces)) => {
                pieces.into_iter().for_each(|piece| extents.release(piece));
            }
            _ => unreachable!("a bug: a run is discarded where it was parked"),
        }
    }

    /// Takes the memory, or the space of a file, for this many bytes, before the first run. Memory is locked for `device`, the one
    /// that runs leave, if it [can](Device::locks_pages). What is parked beyond it takes more.
    ///
    /// # Errors
    /// [`Error::Invalid`](hal::Error::Invalid) if the host or the disk has no room for it; those of the device.
    pub fn reserve(&mut self, bytes: u64, device: &dyn Device) -> Result<()> {
        match &mut self.backing {
            Backing::Memory(host) => host.reserve(&self.owner, bytes, device),
            Backing::File(file) => file.reserve(bytes),
            Backing::Nowhere(..) => Ok(()),
        }
    }

    /// Bytes of memory, or of a file, with room for everything that has been away at a time so far.
    pub fn num_bytes(&self) -> u64 {
        match &self.backing {
            Backing::Memory(host) => host.num_bytes(),
            Backing::File(file) => file.num_bytes(),
            Backing::Nowhere(_, extents) => extents.end(),
        }
    }
}

fn ranges(bytes: usize, piece_bytes: usize) -> impl ExactSizeIterator<Item = Range<usize>> {
    let starts = (0..bytes).step_by(piece_bytes);
    starts.map(move |start| start..(start + piece_bytes).min(bytes))
}

fn stand_in<'a>(owner: &str, any: &'a mut Vec<u8>, bytes: usize) -> Result<&'a mut [u8]> {
    if any.len() < bytes {
        *any = zeros(owner, bytes)?;
    }
    Ok(&mut any[..bytes])
}
