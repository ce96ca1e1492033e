//! Letters between hosts: bytes with an address, delivered to a box where the recipient finds them.
//!
//! One communicator carries the letters of all exchanges and all notices. Any waiting thread empties it for all
//! threads, so no letter waits for a particular thread.

use crate::raw::{self, Comm, Fault, Request};
use hal::lock;
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

/// Bytes at the start of every letter: its address and its number at that address.
const HEAD: usize = 16;
/// MPI's tags are unused, because letters carry their own address.
const TAG: i32 = 0;
/// The address of notices, which no exchange has.
pub(crate) const NOTICES: u64 = 0;

/// The slot of a letter: its sender, the exchange, and its number there.
type Slot = (usize, u64, u64);

/// This process's post office.
#[derive(Debug)]
pub(crate) struct Post {
    comm: Comm,
    rank: usize,
    boxes: Mutex<Boxes>,
    // Letters whose bytes are still moving; the holder of the lock advances them.
    moving: Mutex<Moving>,
}

#[derive(Debug, Default)]
struct Boxes {
    letters: HashMap<Slot, Vec<u8>>,
    notices: VecDeque<(usize, Vec<u8>)>,
}

#[derive(Debug, Default)]
struct Moving {
    // MPI reads these vectors until their request has completed.
    out: Vec<(Request, Vec<u8>)>,
    come: Vec<(Request, usize, Vec<u8>)>,
    // Those of a rank that has died, and of requests that MPI refused: it may still know them.
    lost: Vec<Vec<u8>>,
}

impl Post {
    /// The post office of `rank`, over a communicator that nothing else uses.
    pub(crate) fn new(comm: Comm, rank: usize) -> Post {
        Post {
            comm,
            rank,
            boxes: Mutex::default(),
            moving: Mutex::default(),
        }
    }

    /// Sends a letter; the receiver need not be waiting for it yet.
    ///
    /// # Errors
    /// MPI's, and a letter of 2 GiB or more.
    pub(crate) fn send(
        &self,
        to: usize,
        address: u64,
        number: u64,
        bytes: &[u8],
    ) -> Result<(), Fault> {
        if to == self.rank {
            self.deliver(to, address, number, bytes.to_vec());
            return Ok(());
        }
        if i32::try_from(bytes.len() + HEAD).is_err() {
            let reason = format!(
                "{} bytes for the host exchange, which takes less than 2 GiB",
                bytes.len()
            );
            return Err(Fault {
                call: "MPI_Isend",
                code: -1,
                reason,
            });
        }
        let letter = [&address.to_le_bytes()[..], &number.to_le_bytes(), bytes].concat();
        // SAFETY: the vector is kept with its request, and its heap memory stays where it is.
        let request = unsafe { self.comm.send(letter.as_ptr(), letter.len(), to, TAG) }?;
        lock(&self.moving).out.push((request, letter));
        Ok(())
    }

    /// The letter for a slot, if it has arrived.
    pub(crate) fn take(&self, from: usize, address: u64, number: u64) -> Option<Vec<u8>> {
        lock(&self.boxes).letters.remove(&(from, address, number))
    }

    /// The next notice, and its sender.
    pub(crate) fn take_notice(&self) -> Option<(usize, Vec<u8>)> {
        lock(&self.boxes).notices.pop_front()
    }

    /// Ends all letters, on every rank.
    pub(crate) fn revoke(&self) {
        self.comm.revoke();
    }

    /// The ranks that have died, as far as MPI has noticed.
    pub(crate) fn dead(&self) -> Vec<usize> {
        self.comm.dead().unwrap_or_default()
    }

    /// Delivers what has arrived, and returns whether anything had.
    ///
    /// # Errors
    /// MPI's first; what it does not concern has been delivered.
    pub(crate) fn pump(&self) -> Result<bool, Fault> {
        let Ok(mut moving) = self.moving.try_lock() else {
            return Ok(false);
        };
        let mut first = Ok(());
        loop {
            match self.comm.arrived() {
                Ok(Some((from, bytes, request))) => moving.come.push((request, from, bytes)),
                Ok(None) => break,
                Err(fault) => {
                    first = Err(fault);
                    break;
                }
            }
        }
        let Moving { out, come, lost } = &mut *moving;
        let mut any = false;
        let sent = swept(
            out,
            |(request, _)| request,
            |(_, letter), is_whole| {
                if !is_whole {
                    lost.push(letter);
                }
            },
        );
        let received = swept(
            come,
            |(request, ..)| request,
            |(_, from, letter), is_whole| match is_whole {
                true => {
                    any = true;
                    self.open(from, letter);
                }
                false => lost.push(letter),
            },
        );
        first.and(sent).and(received).map(|()| any)
    }

    fn open(&self, from: usize, mut letter: Vec<u8>) {
        let word = |at: usize| {
            letter
                .get(at..at + 8)?
                .try_into()
                .ok()
                .map(u64::from_le_bytes)
        };
        if let (Some(address), Some(number)) = (word(0), word(8)) {
            letter.drain(..HEAD);
            self.deliver(from, address, number, letter);
        }
    }

    fn deliver(&self, from: usize, address: u64, number: u64, bytes: Vec<u8>) {
        let mut boxes = lock(&self.boxes);
        match address {
            NOTICES => boxes.notices.push_back((from, bytes)),
            _ => drop(boxes.letters.insert((from, address, number), bytes)),
        }
    }
}

// Removes the entries whose request has completed or was refused, in their order, and passes them on with whether they are whole. The
// first refusal.
fn swept<T>(
    list: &mut Vec<T>,
    request: impl Fn(&mut T) -> &mut Request,
    mut ended: impl FnMut(T, bool),
) -> Result<(), Fault> {
    let (mut index, mut first) = (0, Ok(()));
    while index < list.len() {
        match raw::has_ended(request(&mut list[index])) {
            Ok(true) => ended(list.remove(index), true),
            Ok(false) => index += 1,
            Err(fault) => {
                ended(list.remove(index), false);
                first = first.and(Err(fault));
            }
        }
    }
    first
}
