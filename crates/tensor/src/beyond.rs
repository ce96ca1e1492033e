//! Memory beyond a device, and the streams by which elements go there and come back.

use crate::{Device, Stream};
use hal::Result;
use offload::{Place, Swap};
use std::{cell::RefCell, rc::Rc, sync::Arc};

/// Memory beyond a device, with a stream for each direction.
#[derive(Debug)]
pub struct Beyond {
    device: Arc<dyn hal::Device>,
    pub(crate) swap: RefCell<Swap>,
    /// Whether a run comes back without waiting for a disk.
    pub(crate) in_memory: bool,
    pub(crate) departures: Stream,
    pub(crate) arrivals: Stream,
}

impl Beyond {
    /// Room in a place for `content`, such as `activations`, which moves in pieces of at most so many bytes, over a stream
    /// there and one back; `owner` names it in errors. On a device whose buffers hold no values, copies take their time and move
    /// nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`](hal::Error::Invalid) if the file cannot be made, and for streams of another device: what has left over one
    /// could not come back over the other.
    pub fn new(
        device: &Device,
        (content, owner): (&str, &str),
        (place, piece_bytes): (&Place, usize),
        [departures, arrivals]: [Stream; 2],
    ) -> Result<Rc<Beyond>> {
        for stream in [&departures, &arrivals] {
            device
                .key()
                .owns("memory beyond a device", "a stream", stream.device())?;
        }
        let in_memory = !matches!(place, Place::Files { .. });
        let place = match device.capabilities().holds_values {
            true => place,
            false => &Place::Nowhere,
        };
        Ok(Rc::new(Beyond {
            device: device.hal().clone(),
            swap: RefCell::new(Swap::new(
                format!("the {content} of {owner}"),
                place,
                piece_bytes,
            )?),
            in_memory,
            departures,
            arrivals,
        }))
    }

    /// Takes the memory of the host, or the space of a file, for this many bytes before the first has left. Memory is locked for the
    /// device if it [can](hal::Device::locks_pages). What is away beyond it takes more.
    ///
    /// # Errors
    /// [`Error::Invalid`](hal::Error::Invalid) if the host or the disk has no room for it;
    /// [`Error::Vendor`](hal::Error::Vendor).
    pub fn reserve(&self, bytes: u64) -> Result<()> {
        self.swap.borrow_mut().reserve(bytes, &*self.device)
    }

    /// Bytes of memory, or of a file, with room for everything that has been away at a time so far.
    pub fn num_bytes(&self) -> u64 {
        self.swap.borrow().num_bytes()
    }
}
